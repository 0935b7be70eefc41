/*
 * The next jobs of groups become ready, as many as there is room, in strict order within a group;
 * first jobs of all groups before second ones. A job that somebody has locked is not overtaken.
 * Each group's next look starts where this one ended.
 */
create or replace function batchq._take_turns(queue text, rooms batchq.group_room[])
returns setof batchq.group_turn
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $_take_turns$
begin
    return query
    with found as materialized (
        select r.group_key, r.free, r.paced, b.*
        from unnest(_take_turns.rooms) r
        cross join lateral (
            select c.ctid as place, c.rank, c.pos, c.ties, row_number() over (order by c.rank, c.pos) as turn
            from batchq.blocked c
            where c.queue = _take_turns.queue and c.group_key = r.group_key collate "C"
              and (c.rank, c.pos) >= (r.low_rank, r.low_pos)
            order by c.rank, c.pos
            limit greatest(r.most, 0)
        ) b
    ),
    locked as materialized (
        select f.*, coalesce(l.got, false) as got
        from found f
        left join lateral (
            select true as got from batchq.blocked b where b.ctid = f.place
            for update skip locked) l on true
    ),
    judged as materialized (
        select l.*, bool_and(l.got) over w
                    and count(*) filter (where l.ties & 8 = 0) over w <= l.free as admitted
        from locked l
        window w as (partition by l.group_key order by l.turn)
    ),
    gone as (
        delete from batchq.blocked b using judged d where d.admitted and b.ctid = d.place
        returning b.job_id, b.segment, b.priority, b.attempt, b.ties, d.turn, d.paced
    ),
    readied as (
        insert into batchq.ready (pos, job_id, ready_at, segment, priority, attempt, ties, queue)
        select batchq._next_place(), g.job_id, batchq._now(), g.segment, g.priority, g.attempt,
               g.ties | 8 | case when g.paced then 16 else 0 end, _take_turns.queue
        from (select g.* from gone g order by g.turn, g.job_id) g
    )
    select r.group_key, d.admitted, d.seated,
           case when d.missed is not null then d.missed[2] when d.seen < r.most
                then 9223372036854775807 else coalesce(d.last[2] + 1, r.low_pos) end,
           case when d.missed is not null then d.missed[1] when d.seen < r.most then 32767
                else coalesce(d.last[1], r.low_rank) end::smallint,
           case when d.was_locked then interval '0.1 s'
                when d.admitted = 1000 then interval '0' end
    from unnest(_take_turns.rooms) r
    cross join lateral (
        select count(*)::integer as seen,
               (count(*) filter (where j.admitted))::integer as admitted,
               (count(*) filter (where j.admitted and j.ties & 8 = 0))::integer as seated,
               max(array[j.rank::bigint, j.pos]) filter (where j.admitted) as last,
               min(array[j.rank::bigint, j.pos]) filter (where not j.admitted) as missed,
               bool_or(not j.got) as was_locked
        from judged j
        where j.group_key = r.group_key
    ) d;
end
$_take_turns$;
