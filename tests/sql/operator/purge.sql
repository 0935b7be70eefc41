begin;
select plan(52);
\ir ../clock.psql

select t.job_in('failed', 'p', 'K', null, '1 h') as a, t.job_in('completed', 'p') as b,
    t.job_in('cancelled', 'p') as c \gset
select is((batchq.purge()).purged, 1::bigint, 'purge forgets dead letters, and no others');
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
select is((batchq.purge()).purged, 0::bigint, 'asked twice is no error');
select is((batchq.purge(status => 'completed')).purged || ' ' || coalesce(t.job(:b), 'gone'), '1 gone',
    'completed ones if asked for');
select is((batchq.purge(status => 'cancelled')).purged || ' ' || coalesce(t.job(:c), 'gone'), '1 gone',
    'cancelled ones if asked for');
select is((select count(*) from batchq.outcome o where o.job_id in (:b, :c)), 0::bigint,
    'with their outcomes');

-- never what is not over
create temporary table s as select x.state, t.job_in(x.state, 's-' || x.state) as id
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled']) x(state);
select is(string_agg((batchq.purge((select array_agg(id) from s), st)).purged::text, ' '), '1 1 1',
    'of a list only those of the status go')
    from unnest(array['failed', 'completed', 'cancelled']) st;
select is(string_agg(s.state || coalesce(' ' || t.job(s.id), ''), ', ' order by s.id),
    'ready ready:0, scheduled scheduled:0, leased leased:1, completed, failed, cancelled',
    'and what is not over is left alone') from s;
select is((batchq.purge('{}')).purged, 0::bigint, 'F065 an empty list is none');
select is((batchq.purge('{-1,NULL}')).purged, 0::bigint, 'nor is an unknown job or null an error');

-- filters
select batchq.enqueue(k, queue => q, max_attempts => 1) from unnest(array['m1', 'm2']) q,
    unnest(array['x', 'y']) k \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('m1', 2) l \g /dev/null
select t.now() as cut \gset
select t.pass('1 min') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('m2', 2) l \g /dev/null
select is((batchq.purge(dry_run => true)).purged, 4::bigint, 'dry_run counts');
select is((select count(*) from batchq.dead), 4::bigint, 'and forgets nothing');
select is((batchq.purge(queue => 'm1', dry_run => true)).purged, 2::bigint, 'by queue');
select is((batchq.purge(kind => 'x', dry_run => true)).purged, 2::bigint, 'by kind');
select is((batchq.purge(finished_before => :'cut', dry_run => true)).purged, 0::bigint,
    'finished_before leaves out its own instant');
select is((batchq.purge(finished_before => :'cut'::timestamptz + interval '1 microsecond',
    dry_run => true)).purged, 2::bigint, 'and takes what is before');
select is((batchq.purge(n => 3, dry_run => true)).purged, 3::bigint, 'F096 n bounds a call');
select min(job_id) as lowest from batchq.dead \gset
select is((batchq.purge(n => 1)).purged || coalesce(t.job(:lowest), ' gone'), '1 gone',
    'F096 the lowest id first');
select is((batchq.purge(queue => 'm2', kind => 'y')).purged, 1::bigint, 'by both');
select is((batchq.purge()).purged, 2::bigint, 'F096 the rest, progress kept');
select batchq.enqueue(k, queue => 'o') from unnest(array['x', 'y']) k \g /dev/null
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('o', 2) l \g /dev/null
select is((batchq.purge(status => 'completed', queue => 'o', kind => 'x',
    finished_before => t.now() + interval '1 s', n => 5, dry_run => true)).purged, 1::bigint,
    'the filters hold for completed ones');
select is((batchq.purge(status => 'completed', finished_before => t.now(), dry_run => true)).purged,
    0::bigint, 'finished_before too');
select is((batchq.purge(status => 'completed', n => 1, dry_run => true)).purged, 1::bigint, 'n too');
select throws_ok(format('select (batchq.purge(%s)).purged', v), 'JQ001', null,
    format('F065 %s is refused', v))
from unnest(array['n => 0', 'n => -1', 'n => null', 'n => 100001', 'status => null',
    'status => ''pending''', 'status => ''running''', 'status => ''leased''', 'status => ''''',
    'status => ''Failed''']) v;

select throws_ok($$select batchq.purge(status => 'completed', error => 'e')$$, 'JQ001', null,
    'only dead letters have groups');

-- F078 from a plain transaction and a restricted role
select t.job_in('failed', 'role') as a \gset
set local role batchq_operator;
select (batchq.purge(array[:a])).purged as purged \gset
reset role;
select is(:purged, 1, 'F078 the role batchq_operator may call it, inside a transaction');
select throws_ok(format('set local role %I; select (batchq.purge()).purged', r), '42501', null,
    format('D-7 %s may not', r)) from unnest(array['batchq_producer', 'batchq_worker',
    'batchq_monitor']) r;

-- by error, and beyond an id
delete from batchq.dead;
select batchq.enqueue('k', queue => 'e', max_attempts => 1) from generate_series(1, 6) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, case when l.job_id % 2 = 0
                   then format(E'no user %s in "%s"\nmore', l.job_id, l.job_id) else 'no user' end)
    from batchq.lease('e', 6) l \g /dev/null
select min(job_id) as low, max(job_id) as high from batchq.dead \gset
create function t.dry(error text, n integer default 100, after_id bigint default null)
returns text language sql as $$
    select x.purged || coalesce(' ' || x.last_id - (select min(d.job_id) from batchq.dead d), '')
    from batchq.purge(error => $1, n => $2, after_id => $3, dry_run => true) x
$$;
select is(t.dry(e.error), '3', 'B-34 by error, as list_errors has it')
    from batchq.list_errors('e') e order by e.error limit 1;
select is(t.dry('no user N in ''…'''), '3', 'B-34 also where it has numbers and quotes');
select is(t.dry('no user 1 in "1"'), '0', 'but not by a text that is no group''s');
select is(t.dry(''), '0', 'nor by none');
select is(t.dry(null, 2), '2 1', 'F096 last_id is where to go on');
select is(t.dry(null, 2, :low + 1), '2 3', 'and is beyond what was done');
select is(t.dry(null, 2, :high), '0', 'null at the end');
select is((select x.purged from batchq.purge(error => 'no user N in ''…''', n => 2) x), 2::bigint,
    'n bounds it');
select is((select x.purged from batchq.purge(error => 'no user N in ''…''') x), 1::bigint,
    'the rest');
select is((select count(*) from batchq.dead), 3::bigint, 'the others stay');

select * from finish();
rollback;
