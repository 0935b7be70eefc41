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
        select r.*, b.*
        from unnest(_take_turns.rooms) r
        left join lateral (
            select c.ctid as place, c.rank, c.pos, c.ties,
                   row_number() over (order by c.rank, c.pos) as turn
            from batchq.blocked c
            where c.queue = _take_turns.queue and c.group_key = r.group_key collate "C"
              and (c.rank, c.pos) >= (r.low_rank, r.low_pos)
            order by c.rank, c.pos
            limit greatest(r.most, 0)
        ) b on true
    ),
    locked as materialized (
        select f.*, coalesce(l.got, f.place is null) as got
        from found f
        left join lateral (
            select true as got from batchq.blocked b where b.ctid = f.place
            for update skip locked) l on true
    ),
    judged as materialized (
        select l.*, l.place is not null and bool_and(l.got) over w
                    and (l.ties & 8 <> 0
                         or count(*) filter (where l.ties & 8 = 0) over w <= l.free) as admitted
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
    ),
    summed as (
        select d.group_key, d.generation, d.low_rank, d.low_pos, d.most, d.seated, d.started,
               d.paced, count(d.place) as seen,
               (count(*) filter (where d.admitted))::integer as admitted,
               (count(*) filter (where d.admitted and d.ties & 8 = 0))::integer as newly,
               max(array[d.rank::bigint, d.pos]) filter (where d.admitted) as last,
               min(array[d.rank::bigint, d.pos]) filter (
                   where d.place is not null and not d.admitted) as missed,
               bool_and(d.got) as got_all
        from judged d
        group by d.group_key, d.generation, d.low_rank, d.low_pos, d.most, d.seated, d.started,
                 d.paced
    )
    select s.group_key, s.generation,
           case when s.missed is not null then s.missed[2]
                when s.seen < s.most then 9223372036854775807
                else coalesce(s.last[2] + 1, s.low_pos) end,
           case when s.missed is not null then s.missed[1]
                when s.seen < s.most then 32767
                else coalesce(s.last[1], s.low_rank) end::smallint,
           s.seated + s.newly, s.started + case when s.paced then s.admitted else 0 end, s.admitted,
           case when not s.got_all then interval '0.1 s'
                when s.admitted = 1000 then interval '0' end
    from summed s;
end
$_take_turns$;
