/*
 * Attempts of queues with a circuit breaker ended, or were handed back: noted by kind, a row a
 * call. The end of a probe closes its breaker or keeps it open; failures may open one. Nobody
 * waits: what another session has locked is left to it, and lease sees that a probe is over.
 */
create or replace function batchq._note_ends(jobs batchq.tie[])
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
as $_note_ends$
declare
    v_kind record;
    v_probe bigint;
begin
    for v_kind in
        select q, j.kind, array_agg(t.job_id) as job_ids, count(t.failed) as ended,
               array_agg(t.job_id) filter (where t.failed) as failed,
               array_agg(t.job_id) filter (where not t.failed) as completed
        from unnest(_note_ends.jobs) t
        join batchq.job j on j.id = t.job_id and j.segment = t.segment
        join batchq.queue q on q.queue = t.queue and q.breaker_share is not null
        where t.ties & 32 <> 0
        group by q, j.kind
        order by q, j.kind
    loop
        insert into batchq.attempt_end (ended_at, ended, failed, queue, kind)
        select batchq._now(), v_kind.ended, coalesce(cardinality(v_kind.failed), 0),
               (v_kind.q).queue, v_kind.kind
        where v_kind.ended > 0;
        select b.probe_job_id into v_probe
        from batchq.breaker b
        where b.queue = (v_kind.q).queue and b.kind = v_kind.kind and b.closed_at is null
          and b.probe_job_id = any(v_kind.job_ids)
        for no key update skip locked;
        if not found then
            if v_kind.failed is not null then
                perform batchq._open_breaker(v_kind.q, v_kind.kind, v_kind.failed[1]);
            end if;
        elsif v_probe = any(v_kind.completed) then
            perform batchq._close_breaker((v_kind.q).queue, v_kind.kind);
        else
            perform batchq._put_off_probe(
                v_kind.q, v_kind.kind, coalesce(v_probe = any(v_kind.failed), false));
        end if;
    end loop;
end
$_note_ends$;
