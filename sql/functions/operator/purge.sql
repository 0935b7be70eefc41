/*
 * Purging: jobs that are over are forgotten, with payload, result and errors. For people who must
 * remove data; retention does not come this way. Rows that others hold are skipped. What the
 * tally has not counted yet is handed over to it.
 */
create or replace function batchq.purge(
    job_ids bigint[] default null,
    status text default 'failed',
    queue text default null,
    kind text default null,
    finished_before timestamptz default null,
    n integer default 1000,
    dry_run boolean default false,
    error text default null,
    after_id bigint default null
)
returns batchq.purged_jobs
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $purge$
declare
    v_only_count constant boolean := dry_run is distinct from false;
    v_chosen batchq.scanned_jobs;
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
        v_chosen := batchq._choose_dead(job_ids, queue, kind, error, null, finished_before,
                                        after_id, n, v_only_count);
    elsif error is not null then
        perform batchq._raise('JQ001', format('error with status %s', quote_literal(status)),
            'only dead letters (status failed) are grouped by error');
    else
        v_chosen := batchq._choose_outcomes(status, job_ids, queue, kind, finished_before,
                                            after_id, n, v_only_count);
    end if;
    if not v_only_count and v_chosen.job_ids <> '{}' then
        perform batchq._note_purged(v_chosen.job_ids);
        perform batchq._forget(v_chosen.job_ids);
        perform batchq._audit_many(
            'purge', cardinality(v_chosen.job_ids)::bigint, queue, job_ids, jsonb_build_object(
                'status', status, 'kind', kind, 'error', error,
                'finished_before', finished_before));
    end if;
    return row(cardinality(v_chosen.job_ids)::bigint, v_chosen.looked_to)::batchq.purged_jobs;
end
$purge$;

comment on function batchq.purge is $comment$
Forget jobs that are over: payload, result and errors are deleted, and dedupe keys given back.

job_ids: these jobs; queue, kind, finished_before, error (as list_errors tells it, of dead letters
only): those that match all that are given. status: 'failed' (dead letters, the default),
'completed' or 'cancelled'. n: at most so many a call, 1 to 100,000, lowest ids first, found among
100,000 jobs (20,000 by error). after_id: only beyond this id: go on with last_id of the call
before, until that is null; so a call costs the same however many went before. dry_run: only count.

Returns: purged_jobs: how many jobs were forgotten, or would be, and where to go on. Jobs of job_ids
that do not match the status are left alone.
Errors: JQ001 n or status is out of its bounds, or an error is given with another status.
Role: batchq_operator.
Example: select purged from batchq.purge(finished_before => now() - interval '30 days')
$comment$;
