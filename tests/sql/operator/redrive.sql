begin;
select plan(67);
\ir ../clock.psql

select t.job_in('failed', 'r', 'K') as a, t.job_in('failed', 'r', 'L') as b \gset
select t.pass('1 s') \g /dev/null
select is(batchq.redrive(array[:a]), 1::bigint, 'B-34 one dead letter is put back');
select is((t.of(:a)).status || ' ' || t.job(:a), 'pending ready:0',
    'B-34 A-21 pending again, attempts 0');
select is((t.of(:a)).last_error, 'e', 'its errors are kept');
select is((t.of(:a)).updated_at, t.now(), 'A-58 updated_at moved');
select is((t.of(:a)).finished_at, null, 'it is not finished');
select is(t.job(:b), 'failed:1', 'the other stays');
select is(batchq.redrive(array[:a]), 0::bigint,
    'asked twice is no error: it waits already, and is not counted');
select is(batchq.enqueue('k', queue => 'r', dedupe_key => 'K'), :a::bigint,
    'it takes its dedupe key back');
select batchq.enqueue('k', queue => 'r', dedupe_key => 'L') as b2 \gset
select batchq.redrive(array[:b]) \g /dev/null
select is(t.job(:b) || ' ' || t.job(:b2), 'ready:0 ready:0',
    'unless another job holds it by now: both are there');
select is(batchq.enqueue('k', queue => 'r', dedupe_key => 'L'), :b2::bigint,
    'and that one keeps it');
select is(string_agg(l.attempt || ' ' || l.max_attempts, ','), '1 1', 'its attempts count from 1')
    from batchq.lease('r') l;
select batchq.fail(:a, t.lease_of(:a), 'e again') \g /dev/null
select is(t.job(:a) || (select count(*) from batchq.error where job_id = :a), 'failed:12',
    'B-34 it may die again, with both errors');
select isnt(batchq.enqueue('k', queue => 'r', dedupe_key => 'K'), :a::bigint,
    'F025 and frees its key again');
select t.job_in('failed', 'win', 'K', null, '1 h') as a \gset
select batchq.redrive(array[:a]) \g /dev/null
select is(batchq.enqueue('k', queue => 'win', dedupe_key => 'K'), :a::bigint,
    'inside its window it holds its key as before');
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('win') l \g /dev/null
select t.pass('2 h') \g /dev/null
select isnt(batchq.enqueue('k', queue => 'win', dedupe_key => 'K'), :a::bigint,
    'and gives it up at its end');

-- states
create temporary table s as select x.state, t.job_in(x.state, 's-' || x.state) as id
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled',
    'purged']) x(state);
select is(t.code(format('select batchq.redrive(array[%s])', s.id)), x.code,
    format('redrive of a %s job: %s', s.state, x.code))
from s join (values ('ready', 'ok'), ('scheduled', 'ok'), ('leased', 'JQ005'),
    ('completed', 'JQ005'), ('failed', 'ok'), ('cancelled', 'JQ005'), ('purged', 'JQ003')) x(state,
    code) using (state) order by s.state;
select is(t.job(s.id), x.now, format('a %s job is %s then', s.state, coalesce(x.now, 'not there')))
from s join (values ('ready', 'ready:0'), ('scheduled', 'scheduled:0'), ('leased', 'leased:1'),
    ('completed', 'completed:1'), ('failed', 'ready:0'), ('cancelled', 'cancelled:0'),
    ('purged', null)) x(state, now) using (state) order by s.state;
select throws_ok(format('select batchq.redrive(array[%s, null])', id), 'JQ003', null,
    'an id of null is not found') from s where state = 'failed';
select throws_ok('select batchq.redrive(''{-1}'')', 'JQ003', null, 'nor one that never was');
select t.job_in('failed', 'atomic') as a \gset
select t.code(format('select batchq.redrive(array[%s, -1])', :a)) \g /dev/null
select is(t.job(:a), 'failed:1', 'one bad id, and nothing is put back');
select is(t.message(format('select batchq.redrive(array[%s])', id)),
    format('job %s is running', id), 'the message says what it is') from s where state = 'leased';
select is(batchq.redrive('{}'), 0::bigint, 'F065 an empty list is no error');
select is(batchq.redrive(array[:a, :a]), 1::bigint, 'F065 an id twice is put back once');

-- filters
delete from batchq.dead;
select batchq.enqueue(k, queue => q, max_attempts => 1) from unnest(array['m1', 'm2']) q,
    unnest(array['x', 'y']) k \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('m1', 2) l \g /dev/null
select t.now() as cut \gset
select t.pass('1 min') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('m2', 2) l \g /dev/null
select is(batchq.redrive(dry_run => true), 4::bigint, 'dry_run counts');
select is((select count(*) from batchq.dead), 4::bigint, 'and puts nothing back');
select is(batchq.redrive(queue => 'm1', dry_run => true), 2::bigint, 'by queue');
select is(batchq.redrive(kind => 'x', dry_run => true), 2::bigint, 'by kind');
select is(batchq.redrive(queue => 'm1', kind => 'x', dry_run => true), 1::bigint, 'by both');
select is(batchq.redrive(failed_before => :'cut', dry_run => true), 0::bigint,
    'failed_before leaves out its own instant');
select is(batchq.redrive(failed_before => :'cut'::timestamptz + interval '1 microsecond',
    dry_run => true), 2::bigint, 'and takes what is before');
select is(batchq.redrive(failed_after => :'cut', dry_run => true), 4::bigint,
    'failed_after has its own instant');
select is(batchq.redrive(failed_after => :'cut'::timestamptz + interval '1 microsecond',
    dry_run => true), 2::bigint, 'and leaves out what is before');
select is(batchq.redrive(queue => 'nobody'), 0::bigint, 'a queue without dead letters gives 0');
select is(batchq.redrive(n => 3, dry_run => true), 3::bigint, 'n bounds a call');
select min(job_id) as lowest from batchq.dead \gset
select is(batchq.redrive(n => 1), 1::bigint, 'one of four');
select is(t.job(:lowest), 'ready:0', 'the lowest id first');
select is(batchq.redrive(), 3::bigint, 'the rest');
select throws_ok(format('select batchq.redrive(%s)', v), 'JQ001', null,
    format('F065 %s is refused', v))
from unnest(array['n => 0', 'n => -1', 'n => null', 'n => 100001', 'per_second => 0',
    'per_second => -1', 'per_second => ''NaN''', 'per_second => ''Infinity''',
    'per_second => ''-Infinity''', 'per_second => 1e-300', 'per_second => 1e300']) v;

-- at a rate, and in order
select t.job_in('failed', 'rate') from generate_series(1, 5) \g /dev/null
select is(batchq.redrive(queue => 'rate', per_second => 2), 5::bigint, 'B-34 five at two a second');
select is((select string_agg(t.wait(s.job_id)::text, ' ' order by s.job_id) from batchq.scheduled s
    where s.queue = 'rate'), '00:00:00 00:00:00.5 00:00:01 00:00:01.5 00:00:02',
    'B-34 are spread over two seconds');
select t.pass('1 s') \g /dev/null
select is((select count(*) from batchq.lease('rate', 10)), 3::bigint,
    'B-34 and become ready one by one');
select lives_ok(format('select batchq.redrive(n => 100000, per_second => %s)', v),
    format('a rate of %s is taken', v)) from unnest(array['0.001', '1000000']) v;
select t.job_in('failed', 'order') from generate_series(1, 3) \g /dev/null
select string_agg(job_id::text, ' ' order by job_id) as ids from batchq.dead
    where queue = 'order' \gset
select batchq.redrive(queue => 'order') \g /dev/null
select is(t.take('order', 3), :'ids', 'C-17 they are ready in order of id');
select batchq.enqueue('k', queue => 'deep', priority => 77, max_attempts => 1) as a \gset
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('deep') l \g /dev/null
delete from batchq.floor where queue = 'deep';
select batchq.redrive(array[:a]) \g /dev/null
select is(t.take('deep'), :'a', 'a redriven job keeps its priority, in a lane that was forgotten');

select * from finish();
rollback;
