-- Whether a span of time is within these bounds, and may be added to any time. Intervals compare
-- as if months had 30 days, so fields of opposite signs can cancel out to a small one which
-- leads out of the calendar all the same.
create or replace function batchq._span_fits(span interval, lowest interval, highest interval)
returns boolean
language sql
immutable
return span between lowest and highest
       and extract(year from span) between -10 and 10
       and extract(day from span) between -3660 and 3660;
