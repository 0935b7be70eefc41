-- The jobs of a queue that came before it limited its groups begin to wait for their turn there:
-- ready ones now, scheduled ones when they are due. They keep the order of enqueue.
create or replace function batchq._gather(queue text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $_gather$
declare
    v_jobs batchq.pending_job[];
begin
    with early as materialized (
        select s.ctid as place
        from batchq.scheduled s
        join batchq.job j on j.id = s.job_id and j.segment = s.segment
        where s.queue = _gather.queue and s.ties & 4 = 0 and j.group_key is not null
        for update of s skip locked
    )
    update batchq.scheduled s set ties = s.ties | 4 from early e where s.ctid = e.place;
    with early as materialized (
        select r.ctid as place
        from batchq.ready r
        join batchq.job j on j.id = r.job_id and j.segment = r.segment
        where r.queue = _gather.queue and r.ties & 4 = 0 and j.group_key is not null
        for update of r skip locked
    ),
    gone as (
        delete from batchq.ready r using early e where r.ctid = e.place
        returning r.job_id, r.segment, r.attempt, r.ties, r.queue, r.priority
    )
    select array_agg(row(g.job_id, g.segment, g.attempt, g.ties | 4, g.queue, g.priority)
                         ::batchq.pending_job)
    into v_jobs
    from gone g;
    if v_jobs is not null then
        perform batchq._block(v_jobs, true);
    end if;
end
$_gather$;
