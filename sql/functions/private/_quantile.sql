-- The time that this share of n times did not exceed, from their histogram. Null if there is none.
create or replace function batchq._quantile(counts bigint[], n bigint, share double precision)
returns interval
language sql
immutable
return batchq._in_bucket(counts, ceil(nullif(n, 0) * share)::bigint,
                         width_bucket(ceil(nullif(n, 0) * share)::bigint - 1, counts) + 1);
