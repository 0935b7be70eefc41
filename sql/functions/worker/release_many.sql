-- Handing back many leases that were not used. See _hand_back.
create or replace function batchq.release_many(job_ids bigint[], lease_ids bigint[])
returns setof batchq.lost_lease
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $release_many$
begin
    return query select s.* from batchq.snooze_many(job_ids, lease_ids, null) s;
end
$release_many$;

comment on function batchq.release_many is $comment$
Hand back many jobs that were not run, as release does for one. One bad row never spoils the rest.

job_ids, lease_ids: from lease, in pairs, at most 10,000.

Returns: the leases that were not settled, as complete_many does.
Errors: JQ001 the arrays differ in length.
Role: batchq_worker.
Example: select * from batchq.release_many(array[1, 2], array[11, 12])
$comment$;
