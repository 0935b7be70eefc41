/*
 * The longest wait after an attempt, in seconds: min(cap, base * factor ^ (attempt - 1)) for
 * "exponential", min(cap, base) for "fixed". Compared as logarithms, so no attempt overflows.
 */
create or replace function batchq._backoff_bound(
    attempt integer,
    backoff text,
    base interval,
    factor double precision,
    cap interval
)
returns double precision
language sql
immutable
return case
    when backoff = 'fixed' or factor <= 1 or attempt <= 1
        then least(extract(epoch from base), extract(epoch from cap))::double precision
    when extract(epoch from base) <= 0
        then 0
    when ln(extract(epoch from base)::double precision) + (attempt - 1) * ln(factor)
         >= ln(greatest(extract(epoch from cap)::double precision, 1e-6))
        then extract(epoch from cap)::double precision
    else extract(epoch from base)::double precision * power(factor, attempt - 1)
end;
