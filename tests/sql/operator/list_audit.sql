begin;
select plan(42);
\ir ../clock.psql

create function t.newest() returns text language sql as $$
    select concat_ws(' | ', a.action, a.target, a.details) from batchq.list_audit(1) a
$$;
create function t.ids(n integer, before_id bigint default null, target text default null)
returns text language sql as $$
    select coalesce(string_agg(a.audit_id::text, ' '), '') from batchq.list_audit($1, $2, $3) a
$$;
select is_empty('select * from batchq.list_audit()', 'at first nothing was done');
select batchq.enqueue('k', queue => 'q') from generate_series(1, 5) \g /dev/null
select batchq.cancel(1) \g /dev/null
select t.take('q') \g /dev/null
select is_empty('select * from batchq.list_audit()', 'what programs do is not written down');

-- what is
select batchq.pause('q', 'why') \g /dev/null
select is(t.newest(), 'pause | queue q | {"reason": "why"}', 'pause is');
select is(a.at, t.now(), 'with its time') from batchq.list_audit() a;
select batchq.pause('q') \g /dev/null
select is(t.newest(), 'pause | queue q', 'what was not given is not there');
select batchq.resume('q') \g /dev/null
select is(t.newest(), 'resume | queue q', 'resume');
select t.code('select batchq.resume(''nobody''''s'')') \g /dev/null
select is(t.newest(), 'resume | queue q', 'what is refused is not written down');
select batchq.set_queue('q', max_attempts => 5, timeout => '90 s', clear => '{rate}') \g /dev/null
select is(t.newest(), 'set_queue | queue q | {"clear": ["rate"], "timeout": "00:01:30", "max_attempts": 5}',
    'set_queue');
select batchq.set_queue('q', reset => true) \g /dev/null
select is(t.newest(), 'set_queue | queue q | {"reset": true}', 'that it reset all');
select batchq.set_group('q', 'g', weight => 3) \g /dev/null
select is(t.newest(), 'set_group | queue q | {"weight": 3, "group_key": "g"}', 'set_group');
select batchq.reset_breaker('q', 'k') \g /dev/null
select is(t.newest(), 'reset_breaker | queue q | {"kind": "k"}', 'reset_breaker');
select batchq.create_token('shop', sha256('s'), '{work}', '{q}') \g /dev/null
select is(t.newest(), 'create_token | token shop | {"queues": ["q"], "scopes": ["work"]}',
    'create_token, without the hash');
select batchq.revoke_token('shop') \g /dev/null
select is(t.newest(), 'revoke_token | token shop', 'revoke_token');
select batchq.revoke_token('shop'), batchq.revoke_token('x') \g /dev/null
select is((select count(*) from batchq.list_audit() a where a.action = 'revoke_token'), 1::bigint,
    'but not where there was nothing to revoke');

-- many jobs
select count(*) as before from batchq.list_audit() \gset
select batchq.cancel_many(queue => 'q', kind => 'x'), batchq.cancel_many(queue => 'q', dry_run => true),
    batchq.redrive(), batchq.redrive(dry_run => true), batchq.purge(),
    batchq.purge(status => 'cancelled', dry_run => true) \g /dev/null
select is((select count(*) from batchq.list_audit()), :before::bigint,
    'many jobs: a dry run leaves nothing, nor does a call that found none');
select batchq.cancel_many(queue => 'q', state => 'pending', reason => 'late', n => 2) \g /dev/null
select is(t.newest(),
    'cancel_many | queue q | {"count": 2, "queue": "q", "state": "pending", "reason": "late"}',
    'cancel_many: one row, with what was given and how many it was done to');
select batchq.cancel_many('{2,5}') \g /dev/null
select is(t.newest(), 'cancel_many | {"count": 2, "job_ids": [2, 5]}',
    'running ones that were asked to stop count');
select batchq.enqueue('k', queue => 'd', max_attempts => 1) from generate_series(1, 120) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('d', 120) l \g /dev/null
select batchq.redrive(kind => 'k', error => 'e', n => 1, per_second => 5) \g /dev/null
select is(t.newest(), 'redrive | {"kind": "k", "count": 1, "error": "e", "per_second": 5}', 'redrive');
select batchq.purge(queue => 'd', n => 3) \g /dev/null
select is(t.newest(), 'purge | queue d | {"count": 3, "queue": "d", "status": "failed"}', 'purge');
select batchq.purge(array_agg(i)) from generate_series(1::bigint, 500) i \g /dev/null
select is((a.details - 'job_ids') || jsonb_build_object('ids', jsonb_array_length(a.details -> 'job_ids')),
    '{"ids": 100, "count": 116, "given": 500, "status": "failed"}',
    'of a long list of ids the first 100 are kept') from batchq.list_audit(1) a;

-- one job, by a person
select batchq.enqueue('k', queue => 'c') as a, batchq.enqueue('k', queue => 'c') as b,
    batchq.enqueue('k', queue => 'c') as c \gset
select t.take('c') \g /dev/null
select batchq.act_as('ann'), batchq.cancel(:a, 'hm') \g /dev/null
select is(t.newest() || a.actor, 'cancel | job ' || :a || ' | {"reason": "hm"}ann',
    'cancel, where an actor was named') from batchq.list_audit(1) a;
select t.pass('1 s'), batchq.cancel(:a, 'again') \g /dev/null
select is(t.newest(), 'cancel | job ' || :a || ' | {"reason": "hm"}', 'a running job once');
select batchq.cancel(:b) \g /dev/null
select is(t.newest(), 'cancel | job ' || :b, 'a pending one too');
select batchq.cancel(:b) \g /dev/null
select is((select count(*) from batchq.list_audit(target => 'job ' || :b)), 1::bigint, 'and once');
select batchq.act_as(null), batchq.cancel(:c) \g /dev/null
select is_empty(format('select * from batchq.list_audit(target => %L)', 'job ' || :c),
    'programs cancel without a word');

-- pages
delete from batchq.audit;
select batchq.pause(q) from unnest(array['a', 'b', 'a', 'a', 'b']) q \g /dev/null
select min(audit_id) as first from batchq.audit \gset
select is(t.ids(9), format('%s %s %s %s %s', :first + 4, :first + 3, :first + 2, :first + 1, :first),
    'the newest comes first');
select is(t.ids(2), format('%s %s', :first + 4, :first + 3), 'n bounds a page');
select is(t.ids(2, :first + 3), format('%s %s', :first + 2, :first + 1), 'before_id is the next one');
select is(t.ids(9, :first), '', 'until there is no more');
select is(t.ids(9, null, 'queue a'), format('%s %s %s', :first + 3, :first + 2, :first),
    'of one target');
select is(t.ids(1, :first + 3, 'queue a'), (:first + 2)::text, 'in pages too');
select is(t.ids(9, null, v), '', format('nothing was done to %s', v))
    from unnest(array['queue A', 'queue', 'a', '']) v;
select throws_ok(format('select batchq.list_audit(%s)', v), 'JQ001', null,
    format('F065 n of %s is refused', v)) from unnest(array['0', 'null', '1001']) v;

set local role batchq_operator;
select count(*) as one from batchq.list_audit() \gset
set local role batchq_monitor;
select count(*) as two from batchq.list_audit() \gset
reset role;
select is(:one + :two, 10, 'F074 the roles batchq_operator and batchq_monitor may call it');
select throws_ok(format('set local role %I; select batchq.list_audit()', r), '42501', null,
    format('F074 %s may not', r)) from unnest(array['batchq_producer', 'batchq_worker']) r;
select hasnt_column('batchq', 'audit_entry', 'hash', 'no hash is shown');

select * from finish();
rollback;
