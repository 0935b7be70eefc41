/*
 * The worker's loop as one round trip and one commit: settle what finished, lease the next.
 * Settling goes first, so that what it frees can be leased.
 */
create or replace function batchq.settle_and_lease(
    queues text[] default '{}',
    n integer default 0,
    worker text default null,
    lease_for interval default null,
    completed_ids bigint[] default '{}',
    completed_leases bigint[] default '{}',
    results jsonb[] default null,
    failed_ids bigint[] default '{}',
    failed_leases bigint[] default '{}',
    errors text[] default '{}',
    permanents boolean[] default null,
    retry_ins interval[] default null,
    released_ids bigint[] default '{}',
    released_leases bigint[] default '{}',
    delays interval[] default null
)
returns setof batchq.work_item
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $settle_and_lease$
declare
    v_queue text;
    v_got integer := 0;
    v_count integer;
begin
    if (completed_ids, completed_leases) is distinct from ('{}', '{}') or results <> '{}' then
        return query
        select u.reason, u.job_id, u.lease_id, null::timestamptz, null, null, null::jsonb,
               null::integer, null::integer, null::integer, null::interval, null::jsonb
        from batchq.complete_many(completed_ids, completed_leases, results) u;
    end if;
    if (failed_ids, failed_leases, errors) is distinct from ('{}', '{}', '{}')
       or permanents <> '{}' or retry_ins <> '{}'
    then
        return query
        select u.reason, u.job_id, u.lease_id, null::timestamptz, null, null, null::jsonb,
               null::integer, null::integer, null::integer, null::interval, null::jsonb
        from batchq.fail_many(failed_ids, failed_leases, errors, permanents, retry_ins) u;
    end if;
    if (released_ids, released_leases) is distinct from ('{}', '{}') or delays <> '{}' then
        return query
        select u.reason, u.job_id, u.lease_id, null::timestamptz, null, null, null::jsonb,
               null::integer, null::integer, null::integer, null::interval, null::jsonb
        from batchq.snooze_many(released_ids, released_leases, delays) u;
    end if;
    if n is distinct from 0 then
        perform batchq._check_queues(queues);
        foreach v_queue in array queues loop
            return query
            select 'leased', l.* from batchq.lease(v_queue, n - v_got, worker, lease_for) l;
            get diagnostics v_count = row_count;
            v_got := v_got + v_count;
            exit when v_got >= n;
        end loop;
        if v_got = 0 then                        -- only an empty answer is exact
            return next row('sleep', null, null, null, null, null, null, null, null, null,
                            batchq.next_due(queues), null)::batchq.work_item;
        end if;
    end if;
end
$settle_and_lease$;

comment on function batchq.settle_and_lease is $comment$
A worker's whole loop in one call: settle the jobs that ended since the last call, then lease the
next ones.

queues, n, worker, lease_for: as for lease_from; n 0 leases nothing. completed_ids,
completed_leases, results: as for complete_many. failed_ids, failed_leases, errors, permanents,
retry_ins: as for fail_many. released_ids, released_leases, delays: as for snooze_many.

Returns: work_item rows. event 'leased': a job to run, best first. 'sleep': there was none;
timeout is the time until the next scheduled job is due, null if there is none. 'lost',
'deferred', 'too_large': a settlement that was not taken (job_id and lease_id tell which), as
complete_many does.
Errors: JQ001 a value is out of its bounds; nothing is settled or leased then.
Role: batchq_worker.
Example: select * from batchq.settle_and_lease('{default}', 10, 'w1')
$comment$;
