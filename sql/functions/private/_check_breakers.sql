-- Upkeep of circuit breakers: jobs of closed ones become due; ends of attempts that are out of
-- their window are forgotten. Returns how many jobs and ends, at most n of each kind of job.
create or replace function batchq._check_breakers(n integer)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_check_breakers$
declare
    v_released bigint;
    v_dropped bigint;
begin
    select coalesce(sum(batchq._release_held(b.queue, b.kind, _check_breakers.n)), 0)
    into v_released
    from batchq.breaker b
    where b.closed_at is not null;
    with recursive pair as (
        (select e.queue, e.kind from batchq.attempt_end e order by e.queue, e.kind limit 1)
        union all
        select x.queue, x.kind
        from pair p
        cross join lateral (
            select e.queue, e.kind
            from batchq.attempt_end e
            where (e.queue, e.kind) > (p.queue, p.kind)
            order by e.queue, e.kind
            limit 1) x
    ),
    old as materialized (
        select o.place
        from pair p
        left join batchq.queue q on q.queue = p.queue
        cross join lateral (
            select e.ctid as place
            from batchq.attempt_end e
            where e.queue = p.queue and e.kind = p.kind
              and e.ended_at <= batchq._now() - case
                  when q.breaker_share is null then interval '0'
                  else coalesce(q.breaker_window, interval '60 s') end
            order by e.ended_at
            limit _check_breakers.n
            for update skip locked) o
        limit 10 * _check_breakers.n
    )
    delete from batchq.attempt_end e using old o where e.ctid = o.place;
    get diagnostics v_dropped = row_count;
    return v_released + v_dropped;
end
$_check_breakers$;
