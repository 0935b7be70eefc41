-- Listing worker processes. The table is small: it is read whole.
create or replace function batchq.list_workers(n integer default 1000)
returns setof batchq.worker_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $list_workers$
declare
    v_alive_since constant timestamptz := batchq._now() - interval '90 s';
begin
    if not coalesce(n between 1 and 10000, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 10,000');
    end if;
    return query
    select w.worker_id, w.worker::text, w.host, w.pid, w.version, w.queues, w.kinds, w.concurrency,
           w.running, w.started_at, w.beat_at, w.memory_bytes, w.stopping,
           w.beat_at > v_alive_since, w.drain_requested_at
    from batchq.worker w
    order by w.beat_at desc, w.worker_id         -- so those that are alive come first
    limit list_workers.n;
end
$list_workers$;

comment on function batchq.list_workers is $comment$
Worker processes that beat within the last day and did not end cleanly: those that are alive first,
newest beat first.

n: 1 to 10,000.

Returns: worker_info rows. is_alive: its last beat is less than 90 s old, which is three beats, by
the database's clock. started_at: its first beat.
Errors: JQ001 n is out of its bounds.
Role: batchq_monitor, and every other role of batchq.
Example: select worker, host, running, concurrency from batchq.list_workers() where is_alive
$comment$;
