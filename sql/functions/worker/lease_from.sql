-- Leasing from several queues: each in turn until n jobs are taken. See lease.
create or replace function batchq.lease_from(
    queues text[],
    n integer default 1,
    worker text default null,
    lease_for interval default null
)
returns setof batchq.leased_job
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $lease_from$
declare
    v_queue text;
    v_got integer := 0;
    v_count integer;
begin
    perform batchq._check_queues(queues);
    foreach v_queue in array queues loop
        return query
        select l.* from batchq.lease(v_queue, n - v_got, worker, lease_for) l;
        get diagnostics v_count = row_count;
        v_got := v_got + v_count;
        exit when v_got >= n;
    end loop;
end
$lease_from$;

comment on function batchq.lease_from is $comment$
Take up to n ready jobs from several queues in order of preference: a later queue is looked at
only when the earlier ones have no more to give. Otherwise as lease.

queues: 1 to 100 names. n, worker, lease_for: as for lease.

Returns: leased_job rows, in order of preference.
Errors: JQ001 a value is out of its bounds.
Role: batchq_worker.
Example: select * from batchq.lease_from(array['high', 'low'], n => 10)
$comment$;
