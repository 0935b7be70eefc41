-- Jobs of a kind that a breaker holds back until that time become due, the lowest ids first, at
-- most n. Returns how many.
create or replace function batchq._make_due(
    queue text,
    kind text,
    held_until timestamptz,
    n integer
)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_make_due$
declare
    v_now timestamptz;
    v_count integer;
begin
    perform pg_current_xact_id();                -- before the clock: the floor needs it
    v_now := batchq._now();
    with held as materialized (
        select s.ctid
        from batchq.scheduled s
        where s.queue = _make_due.queue and s.run_at = _make_due.held_until
          and batchq._kind_of(s.job_id, s.segment) = _make_due.kind collate "C"
        order by s.job_id
        limit _make_due.n
        for update skip locked
    ),
    gone as (
        delete from batchq.scheduled s using held h where s.ctid = h.ctid
        returning s.*
    )
    insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, ties, queue)
    select g.job_id, v_now, v_now, g.segment, g.priority, g.attempt, g.ties, g.queue
    from gone g;
    get diagnostics v_count = row_count;
    return v_count;
end
$_make_due$;
