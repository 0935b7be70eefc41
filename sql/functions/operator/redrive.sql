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
    dry_run boolean default false,
    error text default null,
    after_id bigint default null,
    delay interval default null
)
returns batchq.redriven_jobs
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $redrive$
declare
    v_only_count constant boolean := dry_run is distinct from false;
    v_chosen batchq.scanned_jobs;
begin
    perform pg_current_xact_id();
    if not coalesce(n between 1 and 100000
                    and (per_second is null or per_second between 0.001 and 1000000)
                    and (delay is null or batchq._span_fits(delay, '0', '10 years')), false)
    then
        perform batchq._raise('JQ001',
            format('invalid n %s, per_second %s or delay %s', n, per_second, delay),
            'give n of 1 to 100,000, per_second of 0.001 to 1,000,000, delay of 0 to 10 years');
    end if;
    perform batchq._check_redrive(job_ids);
    v_chosen := batchq._choose_dead(job_ids, queue, kind, error, failed_after, failed_before,
                                    after_id, n, v_only_count);
    if not v_only_count and v_chosen.job_ids <> '{}' then
        perform batchq._revive(v_chosen.job_ids, per_second, batchq._exact(delay));
        perform batchq._audit_many(
            'redrive', cardinality(v_chosen.job_ids)::bigint, queue, job_ids, jsonb_build_object(
                'kind', kind, 'error', error, 'failed_after', failed_after,
                'failed_before', failed_before, 'per_second', per_second, 'delay', delay));
    end if;
    return row(cardinality(v_chosen.job_ids)::bigint, v_chosen.looked_to)::batchq.redriven_jobs;
end
$redrive$;

comment on function batchq.redrive is $comment$
Put dead letters back: pending again, attempts 0, errors kept. A job takes its dedupe key back if
no other job holds it by now.

job_ids: these jobs; queue, kind, failed_after, failed_before, error (as list_errors tells it):
those that match all that are given. n: at most so many a call, 1 to 100,000, lowest ids first,
found among 100,000 dead letters (20,000 by error). after_id: only beyond this id: go on with
last_id of the call before, until that is null; so a call costs the same however many went before.
per_second: start no more than so many a second, 0.001 to 1,000,000; else all are ready at once.
delay: the first of them no sooner, 0 to 10 years: of many calls at one rate, those put back so far
divided by per_second. dry_run: only count.

Returns: redriven_jobs: how many jobs were put back, or would be, and where to go on. A job named in
job_ids that is pending already is left as it is and not counted.
Errors: JQ003 a job of job_ids does not exist; JQ005 one is running, completed or cancelled; JQ001
n, per_second or delay is out of its bounds.
Role: batchq_operator.
Example: select redriven from batchq.redrive(kind => 'send_email', per_second => 50)
$comment$;
