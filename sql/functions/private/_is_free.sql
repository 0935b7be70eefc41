-- Whether the transaction in a row's xmax (32 bits) has ended, is our own, or there is none: it is
-- neither among those that run nor newer than the snapshot, which starts its next one at next.
create or replace function batchq._is_free(xmax bigint, own bigint, busy bigint[], next bigint)
returns boolean
language sql
immutable
return xmax = 0 or xmax is not distinct from own
    or not (xmax = any(busy) or ((xmax - next) & 4294967295) < 2147483648);
