/*
 * Completing one job: its leased row leaves, outcome gains one. The lease is checked by the
 * statement that removes the row; a reap of the same row under way is waited for.
 */
create or replace function batchq.complete(
    job_id bigint,
    lease_id bigint,
    result jsonb default null
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $complete$
declare
    v_tie batchq.tie;
begin
    if batchq._size(result) > 1048576 then
        perform batchq._raise('JQ001', format('result of job %s is over 1 MiB', job_id),
            'store it elsewhere and return where it is');
    end if;
    with gone as (
        delete from batchq.leased l
        where l.job_id = complete.job_id and l.lease_id = complete.lease_id
        returning l.job_id, l.lease_id, l.leased_at, l.segment, l.attempt, l.ties, l.queue
    ),
    kept as (
        insert into batchq.outcome (job_id, lease_id, leased_at, segment, attempt, finished_at,
                                    state, result)
        select g.job_id, g.lease_id, g.leased_at, g.segment, g.attempt, batchq._now(), 'completed',
               complete.result
        from gone g
    )
    select g.job_id, g.segment, g.ties, g.queue, false into v_tie from gone g;
    if v_tie.ties <> 0 then
        perform batchq._untie(array[v_tie]);
    elsif v_tie.ties is null
          and batchq._settled_before(job_id, lease_id) is distinct from 'completed'
    then
        perform batchq._lease_lost(job_id, lease_id);
    end if;
    return 'completed';
end
$complete$;

comment on function batchq.complete is $comment$
Finish a job that ran well. The holder of a lease may do so until the lease is taken back, even
after lease_until. Being asked twice with the same lease is no error.

job_id, lease_id: from lease. result: any JSON value of at most 1 MiB, kept with the job.

Returns: 'completed'.
Errors: JQ004 the lease is lost: the job was taken back or has ended otherwise; JQ001 the result
is too large, and the job is still leased.
Role: batchq_worker.
Example: select batchq.complete(l.job_id, l.lease_id, '{"sent": 3}') from batchq.lease() l
$comment$;
