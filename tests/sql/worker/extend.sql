begin;
select plan(27);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'e', timeout => i.timeout)
    from unnest(array[null, '100 s', '30 s', null, null, null]::interval[]) i(timeout) \g /dev/null
create temporary table m as select l.*, row_number() over (order by l.job_id) as n
    from batchq.lease('e', 6) l;
select t.pass('20 s') \g /dev/null
select is(x.state || ' ' || (x.lease_until - t.now()), 'extended 00:01:00',
    'a lease is extended by 60 s from now') from m, batchq.extend(array[job_id], array[lease_id]) x
    where n = 1;
select is((t.of(job_id)).locked_until, t.now() + interval '60 s', 'B-28 locked_until moves with it')
    from m where n = 1;
select is((t.of(job_id)).attempts, 1, 'A-52 and no attempt is counted') from m where n = 1;
select is(x.lease_until - t.now(), '5 s', 'F004 lease_for counts, also when it is shorter') from m,
    batchq.extend(array[job_id], array[lease_id], '5 s') x where n = 1;
select batchq.set_queue('e', lease_for => '40 s') \g /dev/null
select is(x.lease_until - t.now(), '40 s', 'B-10 F008 the queue''s lease_for counts') from m,
    batchq.extend(array[job_id], array[lease_id]) x where n = 1;
select t.pass('20 s') \g /dev/null
select batchq.cancel(job_id) from m where n = 4 \g /dev/null
select batchq.complete(job_id, lease_id) from m where n = 5 \g /dev/null
create temporary table x as
select * from batchq.extend((select array_agg(job_id order by n) from m) || array[-1, null],
    (select array_agg(case n when 6 then lease_id + 1000 else lease_id end order by n) from m)
    || array[1, 1], '50 s');
select is(string_agg(coalesce(m.n::text, x.job_id::text, 'null') || ' ' || x.state
    || coalesce(' ' || (x.lease_until - t.now()), ''), ', ' order by m.n, x.job_id),
          '1 extended 00:00:50, 2 extended 00:00:50, 3 timed_out 00:00:20, 4 cancelled 00:00:50, 5 lost, 6 lost, -1 lost, null lost',
          'F029 each lease gets its own answer') from x left join m using (job_id);
select is((t.of(job_id)).locked_until - t.now(), '20 s',
    'B-06 a lease whose job''s timeout is over is not extended') from m where n = 3;
select is((t.of(job_id)).locked_until - t.now(), '50 s', 'A-83 one that was asked to stop is')
    from m where n = 4;
select is_empty($$ select * from batchq.extend('{}', '{}') $$, 'F065 empty arrays are no error');
select is((select string_agg(x.state, ' ' order by x.state desc) from m,
    batchq.extend(array[m.job_id, m.job_id], array[m.lease_id, m.lease_id]) x where n = 1),
          'extended deferred', 'F065 a pair given twice is extended once, the second is deferred');

-- F003 expired, reaped, leased again
select batchq.enqueue('k', queue => 'x', backoff => 'fixed', backoff_base => '0') as a \gset
select l.lease_id as l from batchq.lease('x', lease_for => '1 s') l \gset
select t.pass('2 s') \g /dev/null
select is(e.state, 'extended',
    'F003 after lease_until the holder may extend it until it is taken back')
    from batchq.extend(array[:a], array[:l]::bigint[], '1 s') e;
select t.pass('2 s') \g /dev/null
select batchq.reap() \g /dev/null
select is(e.state, 'lost', 'F003 once it is reaped it is lost')
    from batchq.extend(array[:a], array[:l]::bigint[]) e;
select l.lease_id as l2 from batchq.lease('x', lease_for => '7 s') l \gset
select is(e.state, 'lost', 'F003 also when another has leased the job')
    from batchq.extend(array[:a], array[:l]::bigint[]) e;
select is((t.of(:a)).locked_until - t.now(), '7 s', 'F003 and that lease is left as it is');

-- refusals
select throws_ok(format('select * from batchq.extend(%s)', v), 'JQ001', null,
    format('F065 %s is refused', left(v, 60)))
from unnest(array['null, null', '''{}'', null', 'null, ''{}''', '''{1}'', ''{}''',
    '''{1}'', ''{1,2}''', '''{1}'', ''{1}'', ''0''', '''{1}'', ''{1}'', ''-1 s''',
    '''{1}'', ''{1}'', ''0.099 s''', '''{1}'', ''{1}'', ''1 day 1 s''',
                  '''{1}'', ''{1}'', ''1000000000 s''',
                  'array_fill(1::bigint, array[10001]), array_fill(1::bigint, array[10001])']) v;
select lives_ok(format('select * from batchq.extend(''{1}'', ''{1}'', %L)', v),
    format('lease_for of %s is taken', v)) from unnest(array['0.1 s', '1 day']) v;

select * from finish();
rollback;
