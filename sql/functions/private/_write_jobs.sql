/*
 * Writing to the view jobs: INSERT is enqueue, UPDATE and DELETE are refused with the name of the
 * function to call. Runs with the caller's rights, so enqueue's grant decides, and raises by
 * itself, as _raise is closed to the caller.
 */
create or replace function batchq._write_jobs()
returns trigger
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_write_jobs$
begin
    if tg_op <> 'INSERT' then
        raise exception '% on batchq.jobs is not possible', lower(tg_op)
            using errcode = 'JQ005',
                  hint = 'call batchq.cancel, redrive, purge, or enqueue with on_duplicate';
    end if;
    if new.type <> new.kind or new.run_at <> new.available_at then
        raise exception 'type and kind, or run_at and available_at, differ'
            using errcode = 'JQ001', hint = 'give one of the two';
    end if;
    if coalesce(new.status, 'pending') <> 'pending'
       or num_nonnulls(new.id, new.state, new.attempts, new.created_at, new.updated_at,
                       new.locked_by, new.locked_until, new.last_error, new.result) > 0
    then
        raise exception 'a new job has a value that batchq gives'
            using errcode = 'JQ001',
                  hint = 'give kind, payload, queue, priority, run_at, max_attempts, timeout,'
                         ' dedupe_key, headers, group_key';
    end if;
    new.id := batchq.enqueue(
        coalesce(new.kind, new.type), coalesce(new.payload, '{}'), coalesce(new.queue, 'default'),
        coalesce(new.priority, 0), coalesce(new.run_at, new.available_at),
        max_attempts => new.max_attempts, timeout => new.timeout, dedupe_key => new.dedupe_key,
        headers => new.headers, group_key => new.group_key);
    new.status := 'pending';
    return new;
end
$_write_jobs$;
