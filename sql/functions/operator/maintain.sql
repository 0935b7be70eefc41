/*
 * Upkeep: every task that is due and that nobody else is doing, one bounded step of each. A task
 * comes round no sooner than twenty times what it last took. One that is long overdue is done
 * even though somebody holds its row in an open transaction: every task skips locked rows, so
 * doing it twice does no harm.
 */
create or replace function batchq.maintain()
returns setof batchq.maintained
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $maintain$
declare
    v_started timestamptz := batchq._now();
    v_task record;
    v_done bigint;
    v_mine boolean;
begin
    for v_task in
        select u.task, u.every, u.next_at
        from batchq.upkeep u
        where u.next_at <= v_started
        order by u.task
    loop
        perform from batchq.upkeep u
        where u.task = v_task.task and u.next_at = v_task.next_at
        for update skip locked;
        v_mine := found;
        continue when not v_mine and v_task.next_at > v_started - interval '30 s';
        v_started := batchq._now();
        v_done := case v_task.task
            when 'reap' then batchq.reap(1000)
            when 'promote' then batchq._promote_all(1000)
            when 'keys' then batchq._drop_keys(1000)
            when 'floors' then batchq._check_floors()
            when 'lanes' then batchq._drop_lanes()
            when 'tally' then batchq._tally()
            when 'age' then batchq._age(1000)
            when 'breakers' then batchq._check_breakers(1000)
            when 'limits' then batchq._check_permits()
            when 'groups' then batchq._check_groups()
            when 'rollups' then batchq._drop_rollups(1000)
            when 'workers' then batchq._drop_workers(1000) + batchq._drop_tokens(1000)
                                + batchq._drop_sessions(1000)
            when 'audit' then batchq._drop_audit(1000)
        end;
        update batchq.upkeep u
        set last_at = v_started,
            took = batchq._now() - v_started,
            done = u.done + v_done,
            next_at = case when v_done >= 1000 then v_started
                           else v_started + greatest(
                               v_task.every, 20 * (batchq._now() - v_started)) end
        where v_mine and u.task = v_task.task;
        return next row(v_task.task, v_done, v_done >= 1000)::batchq.maintained;
    end loop;
end
$maintain$;

comment on function batchq.maintain is $comment$
Do one bounded step of everything periodic: take back expired leases, make due jobs ready, give back
dedupe keys whose window ended, let old jobs rise where a queue wants it, prove that limits and
groups have lost nothing, check the floors, forget lanes that are no longer used, worker processes
that were silent for a day, tokens that were revoked 30 days ago, sessions that are over, rollups of
more than 7 days and what operators did more than 90 days ago, and bring counters, rollups and
breakers up to date. Safe to call from many places at once: a task that another session is doing, or
that is not due, is skipped. Workers call it every few seconds; without any, call it from cron.

Returns: one row a task that was done (task, done: rows it moved, more: call again soon).
Role: batchq_operator.
Example: select * from batchq.maintain()
$comment$;
