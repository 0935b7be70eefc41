/*
 * The ready jobs of lowest id that match, beyond an id, in no order: those that took a new place,
 * at most n, from their own index; and fresh ones, at most n, whose place is their id.
 *
 * Fresh ones are read in windows of ids, each window from all lanes, until there are enough: a lane
 * alone cannot tell how many of the lowest are its own. Windows grow, so that a few jobs far apart
 * take few of them. A lane is read from where its first job was found, so the dead entries at its
 * low end are walked once at most, and only above the hard floor.
 */
create or replace function batchq._oldest_ready(
    queue text,
    kind text,
    created_after timestamptz,
    created_before timestamptz,
    n integer,
    after_id bigint
)
returns setof batchq.found_job
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_oldest_ready$
declare
    v_head constant bigint := batchq._head('ready', null);
    v_queues text[];
    v_priorities smallint[];
    v_places bigint[];
    v_from bigint;
    v_width bigint;
    v_left integer := n;
    v_count integer;
begin
    return query
    select r.job_id, 'ready', r.ctid
    from batchq.ready r
    cross join lateral (
        select from batchq.job j
        where j.id = r.job_id and j.segment = r.segment
          and batchq._matches(j.kind, j.created_at, _oldest_ready.kind,
                              _oldest_ready.created_after, _oldest_ready.created_before)
        limit 1
    ) m
    where r.pos <> r.job_id and r.job_id > _oldest_ready.after_id
      and (_oldest_ready.queue is null or r.queue = _oldest_ready.queue)
    order by r.job_id
    limit _oldest_ready.n;
    select array_agg(l.queue), array_agg(l.priority), array_agg(f.pos), min(f.pos)
    into v_queues, v_priorities, v_places, v_from
    from batchq._lanes(_oldest_ready.queue) l
    cross join lateral (
        select r.pos
        from batchq.ready r
        where r.queue = l.queue and r.priority = l.priority
          and r.pos >= greatest(_oldest_ready.after_id + 1, (
              select max(o.hard_floor) from batchq.floor o
              where o.queue = l.queue and o.line = 'ready' and o.priority = l.priority))
        order by r.pos
        limit 1
    ) f;
    v_width := case when cardinality(v_queues) = 1 then v_head else 2 * n end;
    while v_from <= v_head and v_left > 0 loop
        return query
        select w.job_id, 'ready', w.place
        from unnest(v_queues, v_priorities, v_places) as l(queue, priority, pos)
        cross join lateral (
            select r.job_id, r.ctid as place
            from batchq.ready r
            cross join lateral (
                select from batchq.job j
                where j.id = r.job_id and j.segment = r.segment
                  and batchq._matches(j.kind, j.created_at, _oldest_ready.kind,
                                      _oldest_ready.created_after, _oldest_ready.created_before)
                limit 1
            ) m
            where r.queue = l.queue and r.priority = l.priority
              and r.pos >= greatest(l.pos, v_from) and r.pos < v_from + v_width
              and r.pos = r.job_id
            order by r.pos
            limit v_left
        ) w
        order by w.job_id
        limit v_left;
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
        v_from := v_from + v_width;
        v_width := greatest(v_width, 4 * least(v_width, v_head / 4));
    end loop;
end
$_oldest_ready$;
