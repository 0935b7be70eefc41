/*
 * What the specs share. Each permutation starts from `call isolation.reset()`: no job, and ids
 * and lease ids that count from 1.
 */
create schema isolation;

create procedure isolation.reset()
language plpgsql
as $reset$
begin
    truncate batchq.job, batchq.outcome, batchq.error, batchq.ready, batchq.scheduled,
             batchq.leased, batchq.dead, batchq.dedupe, batchq.queue, batchq.floor, batchq.worker,
             batchq.permit, batchq.blocked, batchq.call, batchq.group_state, batchq.group_setting,
             batchq.attempt_end, batchq.breaker;
    insert into batchq.floor (queue, line) values ('', 'leased');
    update batchq.upkeep u set next_at = '-infinity';
    alter sequence batchq.position restart;
    alter sequence batchq.lease_number restart;
end
$reset$;

-- Enqueue jobs named a, b, c … by kind, which are then jobs 1, 2, 3 …
create procedure isolation.add(kinds text, queue text default 'default')
language sql
as $add$
    select batchq.enqueue(k.kind, queue => add.queue) from string_to_table(add.kinds, ' ') k(kind);
$add$;

-- The same in one group. Where jobs are added before their queue gets its limits, they have the
-- ids 1, 2, 3 too: permits of a cap take places as jobs do.
create procedure isolation.add_to(group_key text, kinds text)
language sql
as $add_to$
    select batchq.enqueue(k.kind, group_key => add_to.group_key, dedupe_key => k.kind)
    from string_to_table(add_to.kinds, ' ') k(kind);
$add_to$;

-- What leases hand out until there is a job, or for five seconds.
create function isolation.await_lease()
returns text
language plpgsql
as $await_lease$
declare
    v_kinds text;
begin
    for v_try in 1..500 loop
        select string_agg(l.kind, ' ') into v_kinds from batchq.lease(n => 9) l;
        exit when v_kinds is not null;
        perform pg_sleep(0.01);
    end loop;
    return v_kinds;
end
$await_lease$;

-- Lease n jobs: 1, 2, 3 … under leases 1, 2, 3 …
create procedure isolation.hold(n integer)
language sql
as $hold$
    select l.job_id from batchq.lease(n => hold.n) l;
$hold$;

-- Make every lease run out.
create procedure isolation.expire()
language sql
as $expire$
    update batchq.leased l set (lease_until, reap_at) = (batchq._now() - interval '0.1 s', batchq._now() - interval '0.1 s');
$expire$;

-- Specs cannot hold braces. Jobs for enqueue_many, one a key, of that kind.
create function isolation.keyed(keys text, scope text default null, group_key text default null)
returns jsonb
language sql
as $keyed$
    select jsonb_agg(jsonb_build_object('kind', k.key, 'dedupe_key', k.key, 'dedupe_scope',
                                        keyed.scope, 'group_key', keyed.group_key))
    from string_to_table(keyed.keys, ' ') k(key);
$keyed$;

-- Jobs for enqueue_many: one that is ready, one that is not yet due.
create function isolation.two(kind text, queue text, priority integer)
returns jsonb
language sql
as $two$
    select jsonb_agg(jsonb_build_object('kind', two.kind, 'queue', two.queue, 'priority',
                                        two.priority, 'delay', d.delay))
    from (values (null), ('1 h')) d(delay);
$two$;

-- A trigger that stops a session that has set isolation.gate in the middle of its statement,
-- until whoever holds advisory lock 1 lets it go.
create function isolation.gate()
returns trigger
language plpgsql
as $gate$
begin
    if current_setting('isolation.gate', true) = 'shut' then
        perform set_config('isolation.gate', 'passed', false);
        perform pg_advisory_lock_shared(1);
        perform pg_advisory_unlock_shared(1);
    end if;
    return coalesce(new, old);
end
$gate$;
