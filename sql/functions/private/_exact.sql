-- A span of time in seconds alone. A day is 24 hours and a month 30 days then, whatever the
-- session's TimeZone says of the night in between.
create or replace function batchq._exact(span interval)
returns interval
language sql
immutable
return make_interval(secs => extract(epoch from span)::double precision);
