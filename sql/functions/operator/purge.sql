/*
 * Purging: jobs that are over are forgotten, with payload, result and errors. For people who must
 * remove data; retention does not come this way. Rows that others hold are skipped.
 */
create or replace function batchq.purge(
    job_ids bigint[] default null,
    status text default 'failed',
    queue text default null,
    kind text default null,
    finished_before timestamptz default null,
    n integer default 1000,
    dry_run boolean default false
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
as $purge$
declare
    v_chosen bigint[];
begin
    if not coalesce(n between 1 and 100000 and status in ('failed', 'completed', 'cancelled'),
                    false)
    then
        perform batchq._raise('JQ001',
            format('invalid n %s or status %s', n,
                   coalesce(quote_literal(left(status, 80)), 'null')),
            'give n of 1 to 100,000 and status failed, completed or cancelled');
    end if;
    if status = 'failed' then
        select array_agg(c.job_id) into v_chosen
        from (
            select d.job_id
            from batchq.dead d join batchq.job j on j.id = d.job_id and j.segment = d.segment
            where (purge.job_ids is null or d.job_id = any(purge.job_ids))
              and (purge.queue is null or d.queue = purge.queue)
              and (purge.kind is null or j.kind = purge.kind)
              and (purge.finished_before is null or d.failed_at < purge.finished_before)
            order by d.job_id
            limit purge.n
            for update of d skip locked
        ) c;
    else
        select array_agg(c.job_id) into v_chosen
        from (
            select o.job_id
            from batchq.outcome o join batchq.job j on j.id = o.job_id and j.segment = o.segment
            where o.state = purge.status
              and (purge.job_ids is null or o.job_id = any(purge.job_ids))
              and (purge.queue is null or j.queue = purge.queue)
              and (purge.kind is null or j.kind = purge.kind)
              and (purge.finished_before is null or o.finished_at < purge.finished_before)
            order by o.job_id
            limit purge.n
            for update of o skip locked
        ) c;
    end if;
    if not dry_run and v_chosen is not null then
        delete from batchq.dead d where d.job_id = any(v_chosen);
        delete from batchq.outcome o where o.job_id = any(v_chosen);
        delete from batchq.error e where e.job_id = any(v_chosen);
        delete from batchq.dedupe d where d.job_id = any(v_chosen);
        delete from batchq.job j where j.id = any(v_chosen);
    end if;
    return coalesce(cardinality(v_chosen), 0)::bigint;
end
$purge$;

comment on function batchq.purge is $comment$
Forget jobs that are over: payload, result and errors are deleted, and dedupe keys given back.

job_ids: these jobs; queue, kind, finished_before: those that match all that are given. status:
'failed' (dead letters, the default), 'completed' or 'cancelled'. n: at most so many a call, 1 to
100,000, lowest ids first; call again while it returns n. dry_run: only count.

Returns: how many jobs were forgotten, or would be. Jobs of job_ids that do not match the status
are left alone.
Errors: JQ001 n or status is out of its bounds.
Role: batchq_operator.
Example: select batchq.purge(queue => 'mail', finished_before => now() - interval '30 days')
$comment$;
