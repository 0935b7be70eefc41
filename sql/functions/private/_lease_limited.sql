/*
 * One lane's share of a lease, for a queue with limits: permits are taken for the jobs that can be
 * seen, then as many jobs as there are permits; what is not used is put back. The statement that
 * moves the jobs is that of lease, with what a start means for limits; see there.
 *
 * leased_at is read here, after the rows were seen, so after whatever let them become ready. A
 * permit to start comes back a period after it, so any two starts that used it are that far apart.
 */
create or replace function batchq._lease_limited(
    queue text,
    priority smallint,
    from_place bigint,
    n integer,
    worker text,
    lease_for interval,
    at timestamptz
)
returns setof batchq.leased_job
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
as $_lease_limited$
declare
    v_queue batchq.queue;
    v_lane batchq.held_lane;
    v_turns boolean;                             -- seats are for turns
    v_room bigint;
    v_count bigint;
begin
    select q.* into v_queue from batchq.queue q where q.queue = _lease_limited.queue;
    v_turns := v_queue.fair is true and v_queue.group_limit is null;
    v_lane := case when v_queue.breaker_share is not null
                   then batchq._hold_back(v_queue, priority, from_place, n) end;
    select count(*) into v_room
    from (select from batchq.ready r
          where r.queue = _lease_limited.queue and r.priority = _lease_limited.priority
            and r.pos >= _lease_limited.from_place
          limit _lease_limited.n) c;
    v_room := batchq._take_room(v_queue, v_room, _lease_limited.at);
    if v_room = 0 then
        perform batchq._start_probes(v_queue, v_lane.probes);
        return;
    end if;
    return query
    with taken as materialized (
        select r.ctid
        from batchq.ready r
        where r.queue = _lease_limited.queue and r.priority = _lease_limited.priority
          and r.pos >= _lease_limited.from_place
          and (v_lane.kinds is null or batchq._is_let_by(v_lane, r.pos, r.job_id, r.segment))
        order by r.pos limit v_room for update skip locked
    ),
    moved as (
        delete from batchq.ready r using taken t where r.ctid = t.ctid
        returning r.job_id, r.segment, r.attempt, r.ties
    ),
    briefed as materialized (
        select m.*, nextval('batchq.lease_number') as lease_id, batchq._now() + batchq._exact(
                   coalesce(_lease_limited.lease_for, v_queue.lease_for, '60 s')) as till,
               batchq._now() as leased_at,
               v_turns and case when m.ties & 8 = 0 then false
                   else batchq._is_turn(v_queue.queue, j.group_key) end as turn, j.kind, j.payload,
               j.max_attempts, j.timeout, j.headers, j.group_key
        from moved m join batchq.job j on j.id = m.job_id and j.segment = m.segment
    ),
    held as (
        insert into batchq.leased (job_id, lease_id, lease_until, reap_at, leased_at, deadline,
                                   segment, priority, attempt, ties, queue, worker)
        select b.job_id, b.lease_id, b.till, b.till, b.leased_at,
               b.leased_at + batchq._exact(b.timeout), b.segment, _lease_limited.priority,
               b.attempt + 1, batchq._ties_of_start(b.ties, v_queue, b.turn), _lease_limited.queue,
               _lease_limited.worker from briefed b
    ),
    called as (
        insert into batchq.call (due_at, queue, group_key, seats, starts)
        select max(b.leased_at) + c.wait, _lease_limited.queue, b.group_key, count(*) * c.seats,
               count(*) * c.starts
        from (select a.* from briefed a where a.turn or a.ties & 16 <> 0) b
        cross join lateral (
            select interval '0' as wait, 1 as seats, 0 as starts where b.turn
            union all
            select batchq._exact(coalesce(v_queue.group_period, '1 s')), 0, 1 where b.ties & 16 <> 0
        ) c
        group by b.group_key, c.wait, c.seats, c.starts
    )
    select b.job_id, b.lease_id, b.till, _lease_limited.queue, b.kind, b.payload,
           _lease_limited.priority::integer, b.attempt + 1, b.max_attempts::integer, b.timeout,
           b.headers from briefed b;
    get diagnostics v_count = row_count;
    perform batchq._give_back_room(v_queue, v_room, v_count, _lease_limited.at),
            batchq._start_probes(v_queue, v_lane.probes);
end
$_lease_limited$;
