/*
 * Priority ageing: in queues that want it, a ready job joins the highest lane that has jobs once
 * it waited age_every for each step up to it. The oldest jobs of a lane stand at its head, so only
 * heads are looked at; those that others have locked are being leased. Returns how many moved.
 */
create or replace function batchq._age(n integer)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_age$
declare
    v_now constant timestamptz := batchq._now();
    v_lane record;
    v_count bigint;
    v_moved bigint := 0::bigint;
begin
    perform pg_current_xact_id();                -- before nextval: the floor depends on it
    for v_lane in
        select l.queue, l.priority, max(l.priority) over (partition by l.queue) as top,
               q.age_every,
               (select f.hard_floor from batchq.floor f
                where f.queue = l.queue and f.line = 'ready' and f.priority = l.priority
                order by f.generation desc limit 1) as place
        from batchq.queue q
        cross join lateral batchq._lanes(q.queue) l
        where q.age_every is not null
        order by l.queue, l.priority desc
    loop
        continue when v_lane.priority = v_lane.top;
        exit when v_moved >= n;
        with head as (
            select r.ctid as place, coalesce(r.ready_at, j.created_at) as since
            from (select r.ctid, r.job_id, r.segment, r.ready_at
                  from batchq.ready r
                  where r.queue = v_lane.queue and r.priority = v_lane.priority
                    and r.pos >= coalesce(v_lane.place, 0)
                  order by r.pos limit n - v_moved) r
            join batchq.job j on j.id = r.job_id and j.segment = r.segment
        ),
        old as materialized (
            select m.place, h.since
            from head h
            cross join lateral (
                select r.ctid as place from batchq.ready r where r.ctid = h.place
                for update skip locked) m
            where h.since <= v_now - batchq._exact(v_lane.age_every)
                                     * (v_lane.top - v_lane.priority)
        ),
        gone as (
            delete from batchq.ready r using old o where r.ctid = o.place
            returning r.job_id, o.since, r.segment, r.attempt, r.ties, r.pos
        )
        insert into batchq.ready (pos, job_id, ready_at, segment, priority, attempt, ties, queue)
        select batchq._next_place(), g.job_id, g.since, g.segment, v_lane.top, g.attempt, g.ties,
               v_lane.queue
        from (select g.* from gone g order by g.pos) g;
        get diagnostics v_count = row_count;
        v_moved := v_moved + v_count;
    end loop;
    return v_moved;
end
$_age$;
