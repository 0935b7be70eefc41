-- A worker process ends. What it leased stays leased until it is settled or runs out.
create or replace function batchq.drop_worker(worker_id uuid)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $drop_worker$
begin
    delete from batchq.worker w where w.worker_id = drop_worker.worker_id;
    return found;
end
$drop_worker$;

comment on function batchq.drop_worker is $comment$
Take a worker process off the list, at its clean end. One that cannot say so any more stays on the
list, not alive, for a day. Its leases are not touched.

worker_id: as it was given to beat_worker.

Returns: true; false if there was none of this id.
Role: batchq_worker.
Example: select batchq.drop_worker('00000000-0000-4000-8000-000000000001')
$comment$;
