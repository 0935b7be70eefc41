-- The nth smallest of times, which lies in bucket i of their histogram: as far up in it as its
-- place among those that are there. Null if n is.
create or replace function batchq._in_bucket(counts bigint[], n bigint, i integer)
returns interval
language sql
immutable
return make_interval(secs => 0.001 * case
    when i = 1 then n / counts[1]::double precision
    when i <= cardinality(counts)
    then 2 ^ (i - 2 + (n - counts[i - 1]) / (counts[i] - counts[i - 1])::double precision)
    when i > cardinality(counts) then 2 ^ (i - 2)::double precision end);
