begin;
select plan(14);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'q') from generate_series(1, 2) \g /dev/null
create temporary table r as select * from batchq.lease('q');
select batchq.pause('q', 'provider is down') \g /dev/null
select is(t.take('q'), null, 'a paused queue gives nothing');
select is(row(s.paused_at, s.pause_reason)::text, row(t.now(), 'provider is down')::text,
    'stats shows since when and why') from batchq.stats('q') s;
select is(q.paused_by, session_user::text, 'who paused it is kept') from batchq.queue q
    where q.queue = 'q';
select t.pass('5 s') \g /dev/null
select batchq.pause('q') \g /dev/null
select is(row(s.paused_at, s.pause_reason)::text,
    row(t.now() - interval '5 s', 'provider is down')::text,
    'asked twice is no error and keeps the first time and reason') from batchq.stats('q') s;
select batchq.pause('q', repeat('x', 5000)) \g /dev/null
select is(s.pause_reason, repeat('x', 1000), 'a new reason is taken, at most 1,000 characters')
    from batchq.stats('q') s;
select lives_ok($$ select batchq.enqueue('k', queue => 'q') $$, 'jobs may still be added');
select is(e.state, 'extended', 'those that run go on: heartbeat') from r,
    batchq.extend(array[r.job_id], array[r.lease_id]) e;
select is(batchq.complete(job_id, lease_id), 'completed', 'and completion') from r;
select lives_ok($$ select batchq.pause('new') $$, 'a queue may be paused before its first job');
select is(t.take('other'), null, 'F064 others are not touched');
select batchq.enqueue('k', queue => 'Q') as a \gset
select is(t.take('Q'), :'a', 'F064 nor is one whose name differs in case');
select throws_ok(format('select batchq.pause(%L)', v), 'JQ001', null,
    format('F064 queue %L is refused', left(v, 9)))
    from unnest(array[null, '', repeat('q', 256)]) v;

select * from finish();
rollback;
