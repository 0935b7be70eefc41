begin;
select plan(17);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'p', backoff => 'fixed', backoff_base => '0') as a,
    batchq.enqueue('k', queue => 'p') as b \gset
select max(l.lease_id) filter (where job_id = :a) as la,
    max(l.lease_id) filter (where job_id = :b) as lb
    from batchq.lease('p', 2, lease_for => '1 s') l \gset
select lives_ok(format('select batchq.progress(%s, %s, ''{"done": 40}'')', :a, :la),
    'progress is taken');
select is((t.of(:a)).progress, '{"done": 40}', 'and shows');
select is((t.of(:a)).locked_until - t.now(), '1 s', 'F003 it is no heartbeat');
select batchq.progress(:a, :la, '0.5') \g /dev/null
select is((t.of(:a)).progress, '0.5', 'the newest shows, any JSON value');
select batchq.progress(:a, :la, null) \g /dev/null
select is((t.of(:a)).progress, null, 'null takes it away');
select throws_ok(format('select batchq.progress(%s, %s, to_jsonb(repeat(''x'', 65537)))', :a, :la),
    'JQ001', null, 'over 64 KiB is refused');
select lives_ok(format('select batchq.progress(%s, %s, to_jsonb(repeat(''x'', 65000)))', :a, :la),
    'just under it is taken');
select throws_ok(format('select batchq.progress(%L, %L, ''1'')', j, l), 'JQ004', null, d)
from (values (:a::bigint, :lb::bigint, 'F009 another job''s lease is refused'),
    (:a, null, 'a lease of null is refused'),
             (null, :la, 'a job of null is refused'), (-1, 1, 'an unknown job is refused')) x(j, l,
             d);
select t.pass('2 s') \g /dev/null
select lives_ok(format('select batchq.progress(%s, %s, ''1'')', :a, :la),
    'F003 after lease_until the holder may write until it is taken back');
select batchq.reap() \g /dev/null
select throws_ok(format('select batchq.progress(%s, %s, ''2'')', :a, :la), 'JQ004', null,
    'F003 once it is reaped the lease is lost');
select is((t.of(:a)).progress, null, 'progress is given up with the lease');
select l.lease_id as l2 from batchq.lease('p') l \gset
select throws_ok(format('select batchq.progress(%s, %s, ''2'')', :a, :la), 'JQ004', null,
    'F003 also when another has leased the job');
select is((t.of(:a)).progress, null, 'F003 whose progress is its own');
select batchq.complete(:a, :l2) \g /dev/null
select throws_ok(format('select batchq.progress(%s, %s, ''2'')', :a, :l2), 'JQ004', null,
    'a completed job has none');

select * from finish();
rollback;
