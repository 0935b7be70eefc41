/*
 * The jobs of groups that would become ready if a lease looked at the calls of its queue now: what
 * _take_calls, _rooms and _take_turns would do, without doing it. pos is the order in which they
 * become ready.
 *
 * waiting: due jobs that would begin to wait before (_coming_due). 500 calls are read, as by a
 * lease, and n jobs of a group.
 */
create or replace function batchq._coming_turns(
    queue text,
    waiting batchq.blocked[],
    at timestamptz,
    n integer
)
returns setof batchq.blocked
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_coming_turns$
declare
    v_from constant timestamptz := batchq._instant(batchq._hard_floor(queue, 'round'));
    v_calls constant batchq.group_call[] := array(
        select row(c.group_key, sum(c.seats), sum(c.starts),
                   (min(array[c.rank::bigint, c.pos]) filter (where c.pos is not null))[1],
                   (min(array[c.rank::bigint, c.pos]) filter (where c.pos is not null))[2]
               )::batchq.group_call
        from ((select d.group_key, d.seats, d.starts, d.rank, d.pos
               from batchq.call d
               where d.queue = _coming_turns.queue
                 and d.due_at >= v_from and d.due_at <= _coming_turns.at
               order by d.due_at, d.call_id
               limit 500)
              union all
              select w.group_key, 0, 0, w.rank, w.pos
              from unnest(_coming_turns.waiting) w
              where w.group_key is not null) c
        group by c.group_key);
begin
    return query
    with judged as (
        select b.*, row_number() over w as turn,
               b.ties & 8 <> 0
               or count(*) filter (where b.ties & 8 = 0) over w <= r.free as admitted
        from batchq._rooms(_coming_turns.queue, v_calls) r
        cross join lateral (
            select u.*
            from ((select k.*
                   from batchq.blocked k
                   where k.queue = _coming_turns.queue and k.group_key = r.group_key collate "C"
                     and (k.rank, k.pos) >= (r.low_rank, r.low_pos)
                   order by k.rank, k.pos
                   limit greatest(least(r.most, _coming_turns.n), 0))
                  union all
                  select w.* from unnest(_coming_turns.waiting) w
                  where w.group_key = r.group_key collate "C") u
            order by u.rank, u.pos
            limit greatest(least(r.most, _coming_turns.n), 0)
        ) b
        window w as (partition by b.group_key order by b.rank, b.pos)
    )
    select row_number() over (order by j.turn, j.job_id), j.job_id, j.since, j.segment,
           j.priority, j.rank, j.attempt, j.ties, j.queue, j.group_key
    from judged j
    where j.admitted;
end
$_coming_turns$;
