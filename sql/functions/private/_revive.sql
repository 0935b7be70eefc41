/*
 * Move dead letters, locked by this transaction, to ready (to blocked, if they are in a group), or
 * to scheduled at a rate. See redrive.
 * Dedupe keys are claimed in their own order, as by enqueue_many, so that the two cannot wait for
 * each other in a circle; of several jobs with one key the first claims it.
 */
create or replace function batchq._revive(
    job_ids bigint[],
    per_second double precision,
    delay interval
)
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
as $_revive$
declare
    v_now constant timestamptz := batchq._now();
    v_later constant boolean := per_second is not null or delay is not null;
    v_queue text;
    v_queues text[];
    v_waiting batchq.pending_job[];
begin
    perform batchq._note_redriven(job_ids);
    with gone as materialized (
        delete from batchq.dead d where d.job_id = any(_revive.job_ids)
        returning d.job_id, d.segment, d.priority, d.queue
    ),
    numbered as (
        select k.job_id, k.segment, k.priority, k.queue,
               coalesce(max(k.holder) over (partition by k.queue, k.dedupe_key) = k.job_id, false)
                   ::integer + case when k.group_key is not null and q.grouped then 4 else 0 end
                   as ties,
               row_number() over (order by k.job_id) - 1 as ordinal
        from (
            select c.*,
                   case when c.claims
                        then batchq._claim_key(c.queue, c.dedupe_key, c.job_id, c.segment,
                                               'unfinished', null) end as holder
            from (
                select g.*, j.dedupe_key, j.group_key,
                       j.dedupe_key is not null
                       and row_number() over (partition by g.queue, j.dedupe_key
                                              order by g.job_id) = 1 as claims
                from gone g join batchq.job j on j.id = g.job_id and j.segment = g.segment
                order by g.queue, j.dedupe_key, g.job_id
                offset 0
            ) c
        ) k
        left join batchq.queue q on q.queue = k.queue
        order by k.job_id
    ),
    readied as (
        insert into batchq.ready (pos, job_id, ready_at, segment, priority, attempt, ties, queue)
        select batchq._next_place(), m.job_id, v_now, m.segment, m.priority, 0, m.ties,
               m.queue
        from numbered m where not v_later and m.ties & 4 = 0
    ),
    delayed as (
        insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, ties,
                                      queue)
        select m.job_id,
               v_now + coalesce(_revive.delay, interval '0')
                     + make_interval(secs => coalesce(m.ordinal / _revive.per_second, 0)), v_now,
               m.segment, m.priority, 0, m.ties, m.queue
        from numbered m where v_later
    )
    select array_agg(distinct m.queue order by m.queue),
           array_agg(row(m.job_id, m.segment, 0, m.ties, m.queue, m.priority)::batchq.pending_job)
               filter (where not v_later and m.ties & 4 <> 0)
    into v_queues, v_waiting
    from numbered m;
    if v_waiting is not null then
        perform batchq._block(v_waiting, false);
    end if;
    foreach v_queue in array coalesce(v_queues, '{}') loop
        perform batchq._add_lanes(v_queue);
        if v_later then
            perform batchq._add_line(v_queue, 'scheduled', 0::smallint);
        end if;
        perform batchq._ring(v_queue);
    end loop;
end
$_revive$;
