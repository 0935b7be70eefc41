-- The hour in which an instant lies, whatever the session's TimeZone.
create or replace function batchq._hour(at timestamptz)
returns timestamptz
language sql
immutable
return date_bin(interval '1 hour', at, timestamptz '2000-01-01 00:00:00+00');
