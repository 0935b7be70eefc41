/*
 * A worker process says that it is there. For people to look at: no lease hangs on it, so whoever
 * stops beating loses nothing by that. Waits for nobody but another beat of the same id.
 */
create or replace function batchq.beat_worker(
    worker_id uuid,
    worker text,
    host text,
    pid integer,
    version text,
    queues text[],
    kinds text[],
    concurrency integer,
    running integer,
    memory_bytes bigint default null,
    stopping boolean default false
)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $beat_worker$
declare
    v_now constant timestamptz := batchq._now();
    v_is_asked boolean;
begin
    perform batchq._check_beat(worker_id, worker, host, pid, version, concurrency, running,
                               memory_bytes, stopping);
    perform batchq._check_names('queues', queues);
    perform batchq._check_names('kinds', kinds);
    insert into batchq.worker as w (worker_id, started_at, beat_at, memory_bytes, pid,
                                    concurrency, running, stopping, worker, host, version, queues,
                                    kinds)
    values (beat_worker.worker_id, v_now, v_now, beat_worker.memory_bytes, beat_worker.pid,
            beat_worker.concurrency, beat_worker.running, beat_worker.stopping,
            beat_worker.worker, beat_worker.host, beat_worker.version, beat_worker.queues,
            beat_worker.kinds)
    on conflict on constraint worker_pkey do update
    set beat_at = excluded.beat_at,
        memory_bytes = excluded.memory_bytes,
        pid = excluded.pid,
        concurrency = excluded.concurrency,
        running = excluded.running,
        stopping = excluded.stopping,
        worker = excluded.worker,
        host = excluded.host,
        version = excluded.version,
        queues = excluded.queues,
        kinds = excluded.kinds
    returning w.drain_requested_at is not null into v_is_asked;
    return v_is_asked;
end
$beat_worker$;

comment on function batchq.beat_worker is $comment$
Say that a worker process is there, every 30 s or so: what it is, and what it does just now. Being
asked twice is no error. This is for people to look at: leases are renewed by extend, and depend on
nothing that is said here.

worker_id: chosen by the process when it starts, so two processes of one name are two workers.
worker: the name given to lease; host, version: 1 to 255 characters each. pid, concurrency,
running: 0 or more; running is how many jobs it runs now. queues, kinds: what it works on, at most
1,000 names of 1 to 255 characters each. memory_bytes: 0 or more, null if it is not known. stopping:
it takes no new jobs.

Returns: whether it was asked to drain: to take no more jobs, finish what it runs and end.
Errors: JQ001 a value is out of its bounds.
Role: batchq_worker.
Example: select batchq.beat_worker(gen_random_uuid(), 'w1', 'a', 1, '0.1.0', '{mail}', '{a}', 10, 3)
$comment$;
