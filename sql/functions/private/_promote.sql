/*
 * Promotion: due jobs of a queue become ready, in the order of run_at, id, and take new places.
 * Rows that another promotion holds are skipped. Jobs of groups wait for their turn there, unless
 * they kept their seat. Returns how many moved.
 *
 * The xid comes before nextval: the floor depends on it.
 */
create or replace function batchq._promote(queue text, from_place bigint, n integer)
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
set enable_sort = off
as $_promote$
declare
    v_now constant timestamptz := batchq._now();
    v_moved integer;
    v_waiting batchq.pending_job[];
begin
    perform pg_current_xact_id();
    with due as materialized (
        select s.ctid
        from batchq.scheduled s
        where s.queue = _promote.queue
          and s.run_at >= batchq._instant(_promote.from_place) and s.run_at <= v_now
        order by s.run_at, s.job_id
        limit _promote.n
        for update skip locked
    ),
    moved as (
        delete from batchq.scheduled s using due d where s.ctid = d.ctid
        returning s.job_id, s.segment, s.priority, s.attempt, s.ties, s.queue, s.run_at
    ),
    ordered as materialized (
        select m.*, m.ties & 4 <> 0 and (m.ties & 8 = 0 or batchq._is_paced(m.queue)) as waits
        from moved m order by m.run_at, m.job_id
    ),
    readied as (
        insert into batchq.ready (pos, job_id, ready_at, segment, priority, attempt, ties, queue)
        select batchq._next_place(), o.job_id, v_now, o.segment, o.priority, o.attempt, o.ties,
               o.queue
        from ordered o where not o.waits
    )
    select count(*)::integer,
           array_agg(row(o.job_id, o.segment, o.attempt, o.ties, o.queue, o.priority)
                         ::batchq.pending_job) filter (where o.waits)
    into v_moved, v_waiting
    from ordered o;
    if v_waiting is not null then
        perform batchq._block(v_waiting, false);
    end if;
    if v_moved > 0 then
        perform batchq._add_lanes(_promote.queue);
    end if;
    return v_moved;
end
$_promote$;
