begin;
select plan(41);
\ir ../clock.psql

select t.job_in('failed', 'p', 'K', null, '1 h') as a, t.job_in('completed', 'p') as b,
    t.job_in('cancelled', 'p') as c \gset
select is(batchq.purge(), 1::bigint, 'purge forgets dead letters, and no others');
select is(t.job(:a), null, 'the view has it no more');
select is((select count(*) from batchq.job where id = :a) + (select count(*) from batchq.error
    where job_id = :a) + (select count(*) from batchq.dead where job_id = :a)
          + (select count(*) from batchq.dedupe where job_id = :a), 0::bigint,
          'nor any table: payload, errors, key');
select isnt(batchq.enqueue('k', queue => 'p', dedupe_key => 'K'), :a::bigint,
    'F025 its key is free, also inside its window');
select throws_ok(format('select batchq.get_job(%s)', :a), 'JQ003', null,
    'get_job does not find it');
select is(t.job(:b) || ' ' || t.job(:c), 'completed:1 cancelled:0', 'the others are there');
select is(batchq.purge(), 0::bigint, 'asked twice is no error');
select is(batchq.purge(status => 'completed') || ' ' || coalesce(t.job(:b), 'gone'), '1 gone',
    'completed ones if asked for');
select is(batchq.purge(status => 'cancelled') || ' ' || coalesce(t.job(:c), 'gone'), '1 gone',
    'cancelled ones if asked for');
select is((select count(*) from batchq.outcome o where o.job_id in (:b, :c)), 0::bigint,
    'with their outcomes');

-- never what is not over
create temporary table s as select x.state, t.job_in(x.state, 's-' || x.state) as id
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled']) x(state);
select is(string_agg(batchq.purge((select array_agg(id) from s), st)::text, ' '), '1 1 1',
    'of a list only those of the status go')
    from unnest(array['failed', 'completed', 'cancelled']) st;
select is(string_agg(s.state || coalesce(' ' || t.job(s.id), ''), ', ' order by s.id),
    'ready ready:0, scheduled scheduled:0, leased leased:1, completed, failed, cancelled',
    'and what is not over is left alone') from s;
select is(batchq.purge('{}'), 0::bigint, 'F065 an empty list is none');
select is(batchq.purge('{-1,NULL}'), 0::bigint, 'nor is an unknown job or null an error');

-- filters
select batchq.enqueue(k, queue => q, max_attempts => 1) from unnest(array['m1', 'm2']) q,
    unnest(array['x', 'y']) k \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('m1', 2) l \g /dev/null
select t.now() as cut \gset
select t.pass('1 min') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('m2', 2) l \g /dev/null
select is(batchq.purge(dry_run => true), 4::bigint, 'dry_run counts');
select is((select count(*) from batchq.dead), 4::bigint, 'and forgets nothing');
select is(batchq.purge(queue => 'm1', dry_run => true), 2::bigint, 'by queue');
select is(batchq.purge(kind => 'x', dry_run => true), 2::bigint, 'by kind');
select is(batchq.purge(finished_before => :'cut', dry_run => true), 0::bigint,
    'finished_before leaves out its own instant');
select is(batchq.purge(finished_before => :'cut'::timestamptz + interval '1 microsecond',
    dry_run => true), 2::bigint, 'and takes what is before');
select is(batchq.purge(n => 3, dry_run => true), 3::bigint, 'F096 n bounds a call');
select min(job_id) as lowest from batchq.dead \gset
select is(batchq.purge(n => 1) || coalesce(t.job(:lowest), ' gone'), '1 gone',
    'F096 the lowest id first');
select is(batchq.purge(queue => 'm2', kind => 'y'), 1::bigint, 'by both');
select is(batchq.purge(), 2::bigint, 'F096 the rest, progress kept');
select batchq.enqueue(k, queue => 'o') from unnest(array['x', 'y']) k \g /dev/null
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('o', 2) l \g /dev/null
select is(batchq.purge(status => 'completed', queue => 'o', kind => 'x',
    finished_before => t.now() + interval '1 s', n => 5, dry_run => true), 1::bigint,
    'the filters hold for completed ones');
select is(batchq.purge(status => 'completed', finished_before => t.now(), dry_run => true),
    0::bigint, 'finished_before too');
select is(batchq.purge(status => 'completed', n => 1, dry_run => true), 1::bigint, 'n too');
select throws_ok(format('select batchq.purge(%s)', v), 'JQ001', null,
    format('F065 %s is refused', v))
from unnest(array['n => 0', 'n => -1', 'n => null', 'n => 100001', 'status => null',
    'status => ''pending''', 'status => ''running''', 'status => ''leased''', 'status => ''''',
    'status => ''Failed''']) v;

-- F078 from a plain transaction and a restricted role
select t.job_in('failed', 'role') as a \gset
set local role batchq_operator;
select batchq.purge(array[:a]) as purged \gset
reset role;
select is(:purged, 1, 'F078 the role batchq_operator may call it, inside a transaction');
select throws_ok(format('set local role %I; select batchq.purge()', r), '42501', null,
    format('D-7 %s may not', r)) from unnest(array['batchq_producer', 'batchq_worker',
    'batchq_monitor']) r;

select * from finish();
rollback;
