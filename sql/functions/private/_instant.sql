-- The inverse of _micros. Exact: a double holds every microsecond until the year 2255.
create or replace function batchq._instant(micros bigint)
returns timestamptz
language sql
stable
return timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond';
