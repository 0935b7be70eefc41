-- How many permits a row holds at most: a sixteenth of the limit, so that many leases find some to
-- take at the same time. Null if there is no limit.
create or replace function batchq._permit_size(most integer)
returns integer
language sql
immutable
return (_permit_size.most + 15) / 16 + (_permit_size.most = 0)::integer;
