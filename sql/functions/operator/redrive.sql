/*
 * Redriving: dead letters leave, and become ready (or scheduled, to spread them) with no attempt
 * counted. Rows that others hold are skipped.
 */
create or replace function batchq.redrive(
    job_ids bigint[] default null,
    queue text default null,
    kind text default null,
    failed_after timestamptz default null,
    failed_before timestamptz default null,
    n integer default 1000,
    per_second double precision default null,
    dry_run boolean default false
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
as $redrive$
declare
    v_chosen bigint[];
begin
    perform pg_current_xact_id();
    if not coalesce(n between 1 and 100000
                    and (per_second is null or per_second between 0.001 and 1000000), false)
    then
        perform batchq._raise('JQ001', format('invalid n %s or per_second %s', n, per_second),
            'give n of 1 to 100,000 and per_second of 0.001 to 1,000,000');
    end if;
    perform batchq._check_redrive(job_ids);
    select array_agg(c.job_id order by c.job_id) into v_chosen
    from (
        select d.job_id
        from batchq.dead d join batchq.job j on j.id = d.job_id and j.segment = d.segment
        where (redrive.job_ids is null or d.job_id = any(redrive.job_ids))
          and (redrive.queue is null or d.queue = redrive.queue)
          and (redrive.kind is null or j.kind = redrive.kind)
          and (redrive.failed_after is null or d.failed_at >= redrive.failed_after)
          and (redrive.failed_before is null or d.failed_at < redrive.failed_before)
        order by d.job_id
        limit redrive.n
        for update of d skip locked
    ) c;
    if not dry_run and v_chosen is not null then
        perform batchq._revive(v_chosen, per_second);
    end if;
    return coalesce(cardinality(v_chosen), 0)::bigint;
end
$redrive$;

comment on function batchq.redrive is $comment$
Put dead letters back: pending again, attempts 0, errors kept. A job takes its dedupe key back if
no other job holds it by now.

job_ids: these jobs; queue, kind, failed_after, failed_before: those that match all that are
given. n: at most so many a call, 1 to 100,000, lowest ids first; call again while it returns n.
per_second: start no more than so many a second, 0.001 to 1,000,000; else all are ready at once.
dry_run: only count.

Returns: how many jobs were put back, or would be. A job named in job_ids that is pending already
is left as it is and not counted.
Errors: JQ003 a job of job_ids does not exist; JQ005 one is running, completed or cancelled; JQ001
n or per_second is out of its bounds.
Role: batchq_operator.
Example: select batchq.redrive(queue => 'mail', kind => 'send_email', per_second => 50)
$comment$;
