begin;
select plan(59);
\ir ../clock.psql

-- everything at once
select batchq.enqueue('k', to_jsonb(i), 's', backoff => 'fixed', backoff_base => '7 s')
    from generate_series(1, 9) i \g /dev/null
create temporary table m as select l.*, row_number() over (order by l.job_id) as n
    from batchq.lease('s', 7) l;
create temporary table w as
select row_number() over () as place, w.* from batchq.settle_and_lease('{s}', 10, 'w1', '5 s',
    (select array_agg(job_id order by n) from m where n <= 2),
    (select array_agg(lease_id order by n) from m where n <= 2), array['{"r": 1}', null]::jsonb[],
    (select array_agg(job_id order by n) from m where n between 3 and 5),
    (select array_agg(lease_id order by n) from m where n between 3 and 5),
    '{e3,e4,e5}', '{f,t,f}', array[null, null, '3 s']::interval[],
    (select array_agg(job_id order by n) from m where n >= 6),
    (select array_agg(lease_id order by n) from m where n >= 6), array[null, '9 s']::interval[]) w;
select is(string_agg((t.of(job_id)).state || coalesce((t.of(job_id)).result::text, '')
    || coalesce((t.of(job_id)).last_error, '') || coalesce(t.wait(job_id)::text, ''), ' '
    order by n),
          'completed{"r": 1} completed scheduled' || 'e300:00:07 failede4 scheduled'
          || 'e500:00:03 leased scheduled00:00:09', 'each kind of settlement does its work') from m;
select is(string_agg(w.event || ' ' || w.payload, ', ' order by w.place),
    'leased 8, leased 9, leased 6', 'then the next jobs are leased, what was just handed back last')
    from w where event = 'leased';
select is(count(*), 0::bigint, 'with some jobs leased nothing is told of sleep: look again')
from w where event <> 'leased';
select is(string_agg(distinct w.lease_until - t.now() || ' ' || (t.of(w.job_id)).locked_by, ','),
    '00:00:05 w1', 'with lease_for and worker') from w where event = 'leased';
select is(string_agg(distinct concat_ws(' ', queue, kind, priority, attempt, max_attempts), ','),
    's k 0 1 3', 'and told in full') from w where event = 'leased';

-- lost ones of each kind
select is_empty($$ select s.* from batchq.settle_and_lease('{}', 0,
    completed_ids => (select array_agg(job_id) from m where n <= 2),
    completed_leases => (select array_agg(lease_id) from m where n <= 2),
    failed_ids => (select array_agg(job_id) from m where n between 3 and 5),
    failed_leases => (select array_agg(lease_id) from m where n between 3 and 5),
    errors => '{x,x,x}') s $$,
    'F009 a completion or failure handed in twice is no error');
create temporary table lost as
select * from batchq.settle_and_lease('{s}', 5,
    completed_ids => array[-1, (select job_id from m where n = 3),
    (select job_id from w where place = 1)],
    completed_leases => array[1, (select lease_id from m where n = 3),
    (select lease_id from w where place = 1)],
    failed_ids => array[-2, (select job_id from m where n = 1),
    (select job_id from w where place = 2)],
    failed_leases => array[2, (select lease_id from m where n = 1),
    (select lease_id from w where place = 2)], errors => '{a,b,c}',
    released_ids => array[-3, (select job_id from m where n = 7),
    (select job_id from w where place = 3)],
    released_leases => array[3, (select lease_id from m where n = 7),
    (select lease_id from w where place = 3)]);
select is(string_agg(l.event || coalesce(m.n::text, l.job_id::text), ' ' order by l.event, m.n,
    l.job_id), 'leased6 lost1 lost3 lost7 lost-3 lost-2 lost-1',
    'what was lost is told, and the rest goes on')
from lost l left join m using (job_id) where l.event <> 'sleep';
select is(string_agg(distinct (num_nonnulls(queue, kind, payload, priority, attempt, max_attempts,
    timeout, headers, lease_until))::text, ' '), '0', 'a lost row has ids alone') from lost
    where event = 'lost';
select is(string_agg(l.lease_id::text, ' ' order by l.job_id), '3 2 1',
    'and names the lease as it was handed in') from lost l where l.job_id < 0;
select is(string_agg(t.job(w.job_id), ' ' order by place), 'completed:1 scheduled:1 leased:1',
    'good ones among them are settled') from w where event = 'leased';

-- order of queues
select batchq.enqueue('k', to_jsonb(q || i), q) from unnest(array['qa', 'qb']) q,
    generate_series(1, 2) i \g /dev/null
select results_eq($$ select payload from batchq.settle_and_lease('{qb,qa}', 1) $$,
    array['"qb1"'::jsonb], 'A-46 a later queue is not looked at when the first gives enough');
select results_eq($$ select payload from batchq.settle_and_lease('{qb,qa}', 2) $$,
    array['"qb2"', '"qa1"']::jsonb[], 'A-46 only for what the first has not');

-- sleep
select results_eq($$ select event, timeout from batchq.settle_and_lease('{none}', 1) $$,
    $$ values ('sleep', null::interval) $$,
    'with nothing to lease and nothing scheduled there is no time to sleep until');
select batchq.enqueue('k', queue => 'later', delay => '5 s') \g /dev/null
select results_eq($$ select event, timeout from batchq.settle_and_lease('{none,later}', 1) $$,
    $$ values ('sleep', interval '5 s') $$, 'sleep tells of all its queues');
select is((select num_nonnulls(s.job_id, s.lease_id, s.lease_until, s.queue, s.payload)
    from batchq.settle_and_lease('{none,later}', 1) s), 0, 'and of no job');
select batchq.enqueue('k', queue => 'later') \g /dev/null
select results_eq($$ select event from batchq.settle_and_lease('{none,later}', 1) $$,
    array['leased'], 'with n jobs leased there is no sleep');

-- parts of it
select is_empty('select * from batchq.settle_and_lease()', 'nothing asked, nothing done');
select is_empty($$ select * from batchq.settle_and_lease('{s}', 0) $$, 'n 0 leases nothing');
select is_empty('select * from batchq.settle_and_lease(n => 0, queues => null)',
    'and looks at no queue');
select batchq.enqueue('k', queue => 'low', priority => 9) as low,
    batchq.enqueue('k', queue => 'high') as high \gset
select is((select string_agg(coalesce(job_id::text, event), ' ')
    from batchq.settle_and_lease('{high,low}', 5)), :'high' || ' ' || :'low',
    'A-46 queues go in order of preference');
select batchq.enqueue('k', queue => 'free', priority => 1, max_attempts => 9) as a \gset
select l.lease_id as l from batchq.lease('free') l \gset
select is((select s.job_id || ' ' || s.attempt
    from batchq.settle_and_lease('{free}', 1, failed_ids => array[:a],
    failed_leases => array[:l]::bigint[], errors => '{e}', retry_ins => '{0}') s), :'a' || ' 2',
          'a job that failed and is due at once can be leased by the same call');
select s.lease_id as l from (select t.lease_of(:a) as lease_id) s \gset
select is((select s.event from batchq.settle_and_lease(completed_ids => array[:a],
    completed_leases => array[:l]::bigint[], results => array[to_jsonb(repeat('x', 1048577))]) s),
    'too_large', 'D-4 a result over 1 MiB is too_large');
select is(t.job(:a), 'leased:2', 'and the job is still leased');
select batchq.cancel(:a) \g /dev/null
select
    is_empty(format('select * from batchq.settle_and_lease(released_ids => array[%s], released_leases => array[%s])',
    :a, :l), 'A-83 a job that was asked to stop may be handed back');
select is(t.job(:a), 'cancelled:2', 'A-83 and is cancelled');
select batchq.enqueue('k', queue => 'two') as a \gset
select l.lease_id as l from batchq.lease('two') l \gset
select
    results_eq(format('select event, job_id from batchq.settle_and_lease(completed_ids => array[%s], completed_leases => array[%s], failed_ids => array[%1$s], failed_leases => array[%2$s], errors => ''{e}'')',
    :a, :l),
                  format('values (''lost'', %s::bigint)', :a),
                  'one lease settled in two ways is settled by the first');
select is(t.job(:a), 'completed:1', 'and completed before it fails');

-- refusals: nothing is settled or leased then
select batchq.enqueue('k', queue => 'r') from generate_series(1, 2) \g /dev/null
create temporary table r as select * from batchq.lease('r');
select
    throws_ok(format('select s.* from r, batchq.settle_and_lease(completed_ids => array[r.job_id], completed_leases => array[r.lease_id], %s) s',
    v), 'JQ001', null, format('F065 %s is refused', left(v, 90)))
from unnest(array['queues => ''{r}'', n => -1', 'queues => ''{r}'', n => null',
    'queues => ''{r}'', n => 10001', 'queues => ''{}'', n => 1', 'queues => null, n => 1',
    'queues => ''{r,NULL}'', n => 1', 'queues => ''{""}'', n => 1',
    'queues => array_fill(''r''::text, array[101]), n => 1',
    'queues => ''{r}'', n => 1, lease_for => ''0''',
    'queues => ''{r}'', n => 1, lease_for => ''2 days''', 'results => ''{}''',
    'results => array[''1'', ''2'']::jsonb[]',
    'failed_ids => ''{1}''', 'failed_ids => ''{1}'', failed_leases => ''{1}''',
    'failed_ids => null',
    'failed_ids => ''{1}'', failed_leases => ''{1}'', errors => ''{e}'', permanents => ''{}''',
    'failed_ids => ''{1}'', failed_leases => ''{1}'', errors => ''{e}'', retry_ins => ''{11 years}''',
    'released_ids => ''{1}''', 'released_ids => null',
    'released_ids => ''{1}'', released_leases => ''{1}'', delays => ''{}''',
    'released_ids => ''{1}'', released_leases => ''{1}'', delays => ''{11 years}''']) v;
select throws_ok($$ select * from batchq.settle_and_lease(completed_ids => null) $$, 'JQ001', null,
    'F065 completed_ids of null is refused');
select is(string_agg(t.job(job_id), ' '), 'leased:1', 'and its completion was not taken') from r;
select is((select count(*) from jobs where queue = 'r' and state = 'ready'), 1::bigint,
    'nor the other job leased');
select throws_ok(format('select * from batchq.settle_and_lease(%s)', v), 'JQ001', null,
    format('F065 %s without ids is refused', v))
from unnest(array['completed_leases => ''{1}''', 'results => ''{1}''', 'failed_leases => ''{1}''',
    'errors => ''{e}''', 'permanents => ''{t}''', 'retry_ins => ''{1 s}''',
    'released_leases => ''{1}''', 'delays => ''{1 s}''']) v;

select * from finish();
rollback;
