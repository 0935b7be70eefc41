/*
 * Jobs of a lane whose breaker is open wait in scheduled: ten of them until the next probe, so that
 * one is there, the others for longer, so that they do not come and go with every probe. The
 * attempt is not counted; a seat is kept as for a retry. Returns how many were held back.
 *
 * The row of the breaker is locked so that it cannot be deleted until they are seen by whoever
 * releases them; one that is being deleted, or whose probe is due, holds nothing back here.
 */
create or replace function batchq._hold_kinds(
    queue batchq.queue,
    priority smallint,
    from_place bigint,
    lane batchq.held_lane
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
as $_hold_kinds$
declare
    v_now constant timestamptz := batchq._now();
    v_found tid[];
    v_open batchq.breaker[];
    v_count integer;
    v_ties batchq.tie[];
begin
    v_found := array(
        select r.ctid
        from batchq.ready r
        where r.queue = (_hold_kinds.queue).queue and r.priority = _hold_kinds.priority
          and r.pos between _hold_kinds.from_place and (lane).upto
          and r.job_id <> all((lane).probes)
          and batchq._kind_of(r.job_id, r.segment) = any((lane).kinds)
        order by r.pos
        limit 1000
        for update skip locked);
    if v_found = '{}' then
        return 0;
    end if;
    v_open := array(
        select b from batchq.breaker b
        where b.queue = (_hold_kinds.queue).queue and b.closed_at is null and b.probe_at > v_now
        for key share skip locked);
    with gone as (
        delete from batchq.ready r
        using unnest(v_found) f(place), batchq.job j, unnest(v_open) o
        where r.ctid = f.place and j.id = r.job_id and j.segment = r.segment and j.kind = o.kind
        returning r.*, o.probe_at, o.held_until, o.kind
    ),
    placed as materialized (
        select g.*, case when row_number() over (partition by g.kind order by g.pos) <= 10
                         then g.probe_at else g.held_until end as run_at,
               case when g.ties = 0 then 0 else batchq._kept_ties(g.ties, g.queue) end as kept
        from gone g
    ),
    held as (
        insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, ties,
                                      queue)
        select p.job_id, p.run_at, v_now, p.segment, p.priority, p.attempt, p.kept, p.queue
        from placed p
    )
    select count(*)::integer,
           array_agg(row(p.job_id, p.segment, p.ties & ~p.kept, p.queue, null)::batchq.tie)
               filter (where p.ties & ~p.kept <> 0)
    into v_count, v_ties
    from placed p;
    perform batchq._add_line((_hold_kinds.queue).queue, 'scheduled', 0::smallint) where v_count > 0;
    perform batchq._untie(v_ties) where v_ties is not null;
    return v_count;
end
$_hold_kinds$;
