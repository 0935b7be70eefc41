-- The minute in which an instant lies, whatever the session's TimeZone.
create or replace function batchq._minute(at timestamptz)
returns timestamptz
language sql
immutable
return date_bin(interval '1 minute', at, timestamptz '2000-01-01 00:00:00+00');
