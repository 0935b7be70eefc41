-- The xid, with its epoch, from which age() counts in this transaction.
create or replace function batchq._latest_xid()
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_latest_xid$
declare
    v_top constant bigint := pg_current_xact_id()::text::bigint;
begin
    return v_top + age((v_top & 4294967295)::text::xid);
end
$_latest_xid$;
