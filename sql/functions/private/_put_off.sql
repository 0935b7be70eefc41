-- A pending job, taken out by this transaction, is put off. It gives up its turn in its group,
-- which goes on meanwhile. The xid comes before the caller's clock: the floor needs it.
create or replace function batchq._put_off(job batchq.pending_job, run_at timestamptz)
returns text
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_put_off$
begin
    insert into batchq.scheduled (run_at, since, job_id, segment, priority, attempt, ties, queue)
    values (_put_off.run_at, batchq._now(), (job).job_id, (job).segment, (job).priority,
            (job).attempt, (job).ties & ~24, (job).queue);
    perform batchq._add_line((job).queue, 'scheduled', 0::smallint);
    if (job).ties & 24 <> 0 then
        perform batchq._untie(array[row((job).job_id, (job).segment, (job).ties & 24, (job).queue,
                                        null)::batchq.tie]);
    end if;
    return 'scheduled';
end
$_put_off$;
