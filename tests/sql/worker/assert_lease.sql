begin;
select plan(13);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'a', backoff => 'fixed', backoff_base => '0') as a,
    batchq.enqueue('k', queue => 'a') as b \gset
select max(l.lease_id) filter (where job_id = :a) as la,
    max(l.lease_id) filter (where job_id = :b) as lb
    from batchq.lease('a', 2, lease_for => '1 s') l \gset
select is(batchq.assert_lease(:a, :la), t.now() + interval '1 s',
    'a lease that is held answers with its end');
select is(batchq.assert_lease(:a, :la), t.now() + interval '1 s', 'asked twice is no error');
select is(e.state, 'extended', 'the heartbeat of this session goes on')
    from batchq.extend(array[:a], array[:la]::bigint[], '1 s') e;
select throws_ok(format('select batchq.assert_lease(%L, %L)', j, l), 'JQ004', null, d)
from (values (:a::bigint, :lb::bigint, 'F009 another job''s lease is refused'),
    (:a, null, 'a lease of null is refused'),
             (null, :la, 'a job of null is refused'), (-1, 1, 'an unknown job is refused')) x(j, l,
             d);
select t.pass('2 s') \g /dev/null
select is(batchq.assert_lease(:a, :la), t.now() - interval '1 s',
    'F003 after lease_until it is the holder''s until it is taken back');
select batchq.reap() \g /dev/null
select throws_ok(format('select batchq.assert_lease(%s, %s)', :a, :la), 'JQ004', null,
    'F003 once it is reaped the lease is lost');
select l.lease_id as l2 from batchq.lease('a') l \gset
select throws_ok(format('select batchq.assert_lease(%s, %s)', :a, :la), 'JQ004', null,
    'F003 also when another has leased the job');
create temporary table business (n integer);
select
    throws_ok(format('with w as (insert into business values (1)) select batchq.assert_lease(%s, %s)',
    :a, :la), 'JQ004', null, 'a zombie''s write fails');
select is((select count(*) from business), 0::bigint, 'and is rolled back');
select batchq.complete(:a, :l2) \g /dev/null
select throws_ok(format('select batchq.assert_lease(%s, %s)', :a, :l2), 'JQ004', null,
    'a completed job has no lease');

select * from finish();
rollback;
