/*
 * After a batch was added to a queue with a size limit: refuse the batch with JQ006 if they are too
 * many now, or put off the last of these jobs that are too many, by 30 to 90 s each.
 */
create or replace function batchq._fit_depth(queue text, ids bigint[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_fit_depth$
declare
    v_now constant timestamptz := batchq._now();
    v_queue batchq.queue;
    v_over integer;
begin
    select q.* into v_queue from batchq.queue q where q.queue = _fit_depth.queue;
    v_over := batchq._depth(_fit_depth.queue, v_queue.max_depth + cardinality(_fit_depth.ids))
              - v_queue.max_depth;
    if v_over > 0 and v_queue.on_full is distinct from 'delay' then
        perform batchq._queue_full(v_queue);
    elsif v_over > 0 then
        with last as materialized (
            select m.unready, m.unblocked
            from unnest(_fit_depth.ids) i(id)
            cross join lateral (select b.* from batchq.job b where b.id = i.id limit 1) j
            cross join lateral (
                select r.ctid as unready, null::tid as unblocked from batchq.ready r
                where r.queue = _fit_depth.queue and r.priority = j.priority and r.pos = j.id
                union all
                select null, b.ctid from batchq.blocked b where b.job_id = j.id
                limit 1) m
            where j.queue = _fit_depth.queue
            order by j.priority, j.id desc
            limit v_over
        ),
        left_ready as (
            delete from batchq.ready r using last l where r.ctid = l.unready
            returning r.job_id, r.segment, r.priority, r.attempt, r.ties, r.queue
        ),
        left_blocked as (
            delete from batchq.blocked b using last l where b.ctid = l.unblocked
            returning b.job_id, b.segment, b.priority, b.attempt, b.ties, b.queue
        )
        insert into batchq.scheduled (run_at, since, job_id, segment, priority, attempt, ties,
                                      queue)
        select v_now + make_interval(secs => 30 + 60 * random()), v_now, g.*
        from (select r.* from left_ready r union all select b.* from left_blocked b) g;
        perform batchq._add_line(_fit_depth.queue, 'scheduled', 0::smallint);
    end if;
end
$_fit_depth$;
