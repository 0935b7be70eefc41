begin;
select plan(87);
\ir ../clock.psql

select t.job_in('failed', 'r', 'K') as a, t.job_in('failed', 'r', 'L') as b \gset
select t.pass('1 s') \g /dev/null
select is((batchq.redrive(array[:a])).redriven, 1::bigint, 'B-34 one dead letter is put back');
select is((t.of(:a)).status || ' ' || t.job(:a), 'pending ready:0',
    'B-34 A-21 pending again, attempts 0');
select is((t.of(:a)).last_error, 'e', 'its errors are kept');
select is((t.of(:a)).updated_at, t.now(), 'A-58 updated_at moved');
select is((t.of(:a)).finished_at, null, 'it is not finished');
select is(t.job(:b), 'failed:1', 'the other stays');
select is((batchq.redrive(array[:a])).redriven, 0::bigint,
    'asked twice is no error: it waits already, and is not counted');
select is(batchq.enqueue('k', queue => 'r', dedupe_key => 'K'), :a::bigint,
    'it takes its dedupe key back');
select batchq.enqueue('k', queue => 'r', dedupe_key => 'L') as b2 \gset
select (batchq.redrive(array[:b])).redriven \g /dev/null
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
select (batchq.redrive(array[:a])).redriven \g /dev/null
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
select is(t.code(format('select (batchq.redrive(array[%s])).redriven', s.id)), x.code,
    format('redrive of a %s job: %s', s.state, x.code))
from s join (values ('ready', 'ok'), ('scheduled', 'ok'), ('leased', 'JQ005'),
    ('completed', 'JQ005'), ('failed', 'ok'), ('cancelled', 'JQ005'), ('purged', 'JQ003')) x(state,
    code) using (state) order by s.state;
select is(t.job(s.id), x.now, format('a %s job is %s then', s.state, coalesce(x.now, 'not there')))
from s join (values ('ready', 'ready:0'), ('scheduled', 'scheduled:0'), ('leased', 'leased:1'),
    ('completed', 'completed:1'), ('failed', 'ready:0'), ('cancelled', 'cancelled:0'),
    ('purged', null)) x(state, now) using (state) order by s.state;
select throws_ok(format('select (batchq.redrive(array[%s, null])).redriven', id), 'JQ003', null,
    'an id of null is not found') from s where state = 'failed';
select throws_ok('select (batchq.redrive(''{-1}'')).redriven', 'JQ003', null, 'nor one that never was');
select t.job_in('failed', 'atomic') as a \gset
select t.code(format('select (batchq.redrive(array[%s, -1])).redriven', :a)) \g /dev/null
select is(t.job(:a), 'failed:1', 'one bad id, and nothing is put back');
select is(t.message(format('select (batchq.redrive(array[%s])).redriven', id)),
    format('job %s is running', id), 'the message says what it is') from s where state = 'leased';
select is((batchq.redrive('{}')).redriven, 0::bigint, 'F065 an empty list is no error');
select is((batchq.redrive(array[:a, :a])).redriven, 1::bigint, 'F065 an id twice is put back once');

-- filters
delete from batchq.dead;
select batchq.enqueue(k, queue => q, max_attempts => 1) from unnest(array['m1', 'm2']) q,
    unnest(array['x', 'y']) k \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('m1', 2) l \g /dev/null
select t.now() as cut \gset
select t.pass('1 min') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('m2', 2) l \g /dev/null
select is((batchq.redrive(dry_run => true)).redriven, 4::bigint, 'dry_run counts');
select is((select count(*) from batchq.dead), 4::bigint, 'and puts nothing back');
select is((batchq.redrive(queue => 'm1', dry_run => true)).redriven, 2::bigint, 'by queue');
select is((batchq.redrive(kind => 'x', dry_run => true)).redriven, 2::bigint, 'by kind');
select is((batchq.redrive(queue => 'm1', kind => 'x', dry_run => true)).redriven, 1::bigint, 'by both');
select is((batchq.redrive(failed_before => :'cut', dry_run => true)).redriven, 0::bigint,
    'failed_before leaves out its own instant');
select is((batchq.redrive(failed_before => :'cut'::timestamptz + interval '1 microsecond',
    dry_run => true)).redriven, 2::bigint, 'and takes what is before');
select is((batchq.redrive(failed_after => :'cut', dry_run => true)).redriven, 4::bigint,
    'failed_after has its own instant');
select is((batchq.redrive(failed_after => :'cut'::timestamptz + interval '1 microsecond',
    dry_run => true)).redriven, 2::bigint, 'and leaves out what is before');
select is((batchq.redrive(queue => 'nobody')).redriven, 0::bigint, 'a queue without dead letters gives 0');
select is((batchq.redrive(n => 3, dry_run => true)).redriven, 3::bigint, 'n bounds a call');
select min(job_id) as lowest from batchq.dead \gset
select is((batchq.redrive(n => 1)).redriven, 1::bigint, 'one of four');
select is(t.job(:lowest), 'ready:0', 'the lowest id first');
select is((batchq.redrive()).redriven, 3::bigint, 'the rest');
select throws_ok(format('select (batchq.redrive(%s)).redriven', v), 'JQ001', null,
    format('F065 %s is refused', v))
from unnest(array['n => 0', 'n => -1', 'n => null', 'n => 100001', 'per_second => 0',
    'per_second => -1', 'per_second => ''NaN''', 'per_second => ''Infinity''',
    'per_second => ''-Infinity''', 'per_second => 1e-300', 'per_second => 1e300',
    'delay => ''-1 s''', 'delay => ''11 years''']) v;

-- at a rate, and in order
select t.job_in('failed', 'rate') from generate_series(1, 5) \g /dev/null
select is((batchq.redrive(queue => 'rate', per_second => 2)).redriven, 5::bigint, 'B-34 five at two a second');
select is((select string_agg(t.wait(s.job_id)::text, ' ' order by s.job_id) from batchq.scheduled s
    where s.queue = 'rate'), '00:00:00 00:00:00.5 00:00:01 00:00:01.5 00:00:02',
    'B-34 are spread over two seconds');
select t.job_in('failed', 'late') from generate_series(1, 3) \g /dev/null
select is((batchq.redrive(queue => 'late', per_second => 2, n => 2)).redriven, 2::bigint, 'two of three');
select is((batchq.redrive(queue => 'late', per_second => 2, delay => '1 s')).redriven, 1::bigint, 'then one');
select is((select string_agg(t.wait(s.job_id)::text, ' ' order by s.job_id) from batchq.scheduled s
    where s.queue = 'late'), '00:00:00 00:00:00.5 00:00:01', 'delay: many calls keep one rate');
select t.pass('1 s') \g /dev/null
select is((select count(*) from batchq.lease('rate', 10)), 3::bigint,
    'B-34 and become ready one by one');
select lives_ok(format('select (batchq.redrive(n => 100000, per_second => %s)).redriven', v),
    format('a rate of %s is taken', v)) from unnest(array['0.001', '1000000']) v;
select t.job_in('failed', 'order') from generate_series(1, 3) \g /dev/null
select string_agg(job_id::text, ' ' order by job_id) as ids from batchq.dead
    where queue = 'order' \gset
select (batchq.redrive(queue => 'order')).redriven \g /dev/null
select is(t.take('order', 3), :'ids', 'C-17 they are ready in order of id');
select batchq.enqueue('k', queue => 'deep', priority => 77, max_attempts => 1) as a \gset
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('deep') l \g /dev/null
delete from batchq.floor where queue = 'deep';
select (batchq.redrive(array[:a])).redriven \g /dev/null
select is(t.take('deep'), :'a', 'a redriven job keeps its priority, in a lane that was forgotten');

-- by error, and beyond an id
delete from batchq.dead;
select batchq.enqueue('k', queue => 'e', max_attempts => 1) from generate_series(1, 6) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, case when l.job_id % 2 = 0
                   then format(E'no user %s in "%s"\nmore', l.job_id, l.job_id) else 'no user' end)
    from batchq.lease('e', 6) l \g /dev/null
select min(job_id) as low, max(job_id) as high from batchq.dead \gset
create function t.dry(error text, n integer default 100, after_id bigint default null)
returns text language sql as $$
    select x.redriven || coalesce(' ' || x.last_id - (select min(d.job_id) from batchq.dead d), '')
    from batchq.redrive(error => $1, n => $2, after_id => $3, dry_run => true) x
$$;
select is(t.dry(e.error), '3', 'B-34 by error, as list_errors has it')
    from batchq.list_errors('e') e order by e.error limit 1;
select is(t.dry('no user N in ''…'''), '3', 'B-34 also where it has numbers and quotes');
select is(t.dry('no user 1 in "1"'), '0', 'but not by a text that is no group''s');
select is(t.dry(''), '0', 'nor by none');
select is(t.dry(null, 2), '2 1', 'F096 last_id is where to go on');
select is(t.dry(null, 2, :low + 1), '2 3', 'and is beyond what was done');
select is(t.dry(null, 2, :high), '0', 'null at the end');
select is((select x.redriven from batchq.redrive(error => 'no user N in ''…''', n => 2) x), 2::bigint,
    'n bounds it');
select is((select x.redriven from batchq.redrive(error => 'no user N in ''…''') x), 1::bigint,
    'the rest');
select is((select count(*) from batchq.dead), 3::bigint, 'the others stay');

-- limits
select batchq.set_queue('g1', group_limit => 1, max_running => 5) \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g', max_attempts => 1, dedupe_key => 'K' || i)
    from generate_series(1, 3) i \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('g1') l \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('g1') l \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('g1') l \g /dev/null
select batchq.redrive(queue => 'g1') \g /dev/null
select is(cardinality(string_to_array(t.in_state('g1', 'blocked'), ' ')), 3,
    'dead letters of a group wait for their turn again');
select t.in_state('g1', 'blocked') as waiting, t.take('g1', 9) as first \gset
select is(split_part(:'waiting', ' ', 1), :'first', 'in their order');
select is(t.seats('g1') || ' ' || t.free('g1'), 'g:1 4', 'one at a time');
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.leased l where l.queue = 'g1' \g /dev/null
select batchq.cancel_many(queue => 'g1') \g /dev/null
select batchq.redrive(queue => 'g1', per_second => 1) \g /dev/null
select t.pass('1 s') \g /dev/null
select is(t.count('g1'), 1::bigint, 'spread over time they take their turn, too');
select is((select count(*) from batchq.ready r where r.queue = 'g1'), 0::bigint, 'and no other way');

select * from finish();
rollback;
