-- A new place, which is also a new job's id. The xid comes before nextval, always: hard floors
-- depend on it (see _sweep), so nobody else calls nextval on this sequence.
create or replace function batchq._next_place()
returns bigint
language sql
volatile
return case when pg_current_xact_id() is not null then nextval('batchq.position') end;
