-- Add to the rollups; what happened so long ago that they are not kept is left out. The caller has
-- locked the tally's row, so nobody else adds.
create or replace function batchq._add_rollups(sums batchq.tally_sum[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set jit = off
as $_add_rollups$
begin
    insert into batchq.rollup as m (
        span, at, queue, kind, enqueued, completed, cancelled, failed, reaped, retried,
        dead_letters, waited, wait_s, run_s, waits, runs)
    select s.span, s.at, s.queue, s.kind, s.enqueued, s.completed, s.cancelled, s.failed, s.reaped,
           s.retried, s.dead_letters, s.waited, s.wait_s, s.run_s,
           case when s.completed <> 0 then s.waits::integer[] end,
           case when s.completed <> 0 then s.runs::integer[] end
    from unnest(_add_rollups.sums) s
    where s.span is not null and s.at > batchq._now() - interval '167 hours'
    on conflict on constraint rollup_pkey do update
    set enqueued = m.enqueued + excluded.enqueued,
        completed = m.completed + excluded.completed,
        cancelled = m.cancelled + excluded.cancelled,
        failed = m.failed + excluded.failed,
        reaped = m.reaped + excluded.reaped,
        retried = m.retried + excluded.retried,
        dead_letters = m.dead_letters + excluded.dead_letters,
        waited = m.waited + excluded.waited,
        wait_s = m.wait_s + excluded.wait_s,
        run_s = m.run_s + excluded.run_s,
        waits = case when num_nulls(m.waits, excluded.waits) > 0
                     then coalesce(m.waits, excluded.waits) else array(
            select u.a + u.b from unnest(m.waits, excluded.waits) with ordinality as u(a, b, i)
            order by u.i) end,
        runs = case when num_nulls(m.runs, excluded.runs) > 0
                    then coalesce(m.runs, excluded.runs) else array(
            select u.a + u.b from unnest(m.runs, excluded.runs) with ordinality as u(a, b, i)
            order by u.i) end;
end
$_add_rollups$;
