-- Forget sessions of the dashboard that are over. Returns how many.
create or replace function batchq._drop_sessions(n integer)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $_drop_sessions$
declare
    v_dropped bigint;
begin
    with ended as materialized (
        select s.hash
        from batchq.session s
        where s.expires_at <= batchq._now()
        order by s.expires_at
        limit _drop_sessions.n
        for update skip locked
    )
    delete from batchq.session s using ended e where s.hash = e.hash;
    get diagnostics v_dropped = row_count;
    return v_dropped;
end
$_drop_sessions$;
