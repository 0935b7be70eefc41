/*
 * Asking a worker process to end. The request is data: the process learns it by its next beat. The
 * notification only makes that beat come at once, so it may be lost; it bears the worker's id, so
 * that the others stay as they are.
 */
create or replace function batchq.drain_worker(worker_id uuid)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $drain_worker$
declare
    v_now constant timestamptz := batchq._now();
    v_worker record;
begin
    update batchq.worker w
    set drain_requested_at = coalesce(w.drain_requested_at, v_now)
    where w.worker_id = drain_worker.worker_id and w.beat_at > v_now - interval '90 s'
    returning w.worker, w.host, w.pid, w.drain_requested_at into v_worker;
    if not found then
        return false;
    end if;
    if v_worker.drain_requested_at = v_now then
        perform batchq._audit('drain_worker', 'worker ' || worker_id, jsonb_build_object(
            'worker', v_worker.worker, 'host', v_worker.host, 'pid', v_worker.pid));
    end if;
    perform pg_notify('batchq', 'drain ' || worker_id);
    return true;
end
$drain_worker$;

comment on function batchq.drain_worker is $comment$
Ask a worker process to take no more jobs, finish what it runs and end, as by a first SIGTERM. It
learns that by its next beat; NOTIFY on channel batchq makes it come at once, so PREPARE TRANSACTION
refuses a transaction that did this. Whatever restarts processes will start another in its place.
Being asked twice is no error. A request cannot be taken back.

worker_id: as list_workers tells it.

Returns: true; false if there is no such worker, or it is not alive.
Role: batchq_operator.
Example: select worker, batchq.drain_worker(worker_id) from batchq.list_workers() where is_alive
$comment$;
