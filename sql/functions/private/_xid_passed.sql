-- Whether no transaction older than this xid (32 bits of it) runs any more: a comparison in a
-- circle, as the server does it. Below 3 are the frozen ones.
create or replace function batchq._xid_passed(xid bigint, oldest bigint)
returns boolean
language sql
immutable
return xid < 3 or ((oldest - xid) & 4294967295) < 2147483648;
