begin;
select plan(96);
\ir ../clock.psql

-- what is handed out
select batchq.enqueue('send', '{"to": "ada"}', 'mail', 5, max_attempts => 4, timeout => '9 s',
                      headers => '{"h": 1}') as a \gset
select l.*, l.lease_until = t.now() + interval '60 s' as till
from batchq.lease('mail', worker => 'w1') l \gset l_
select is(:'l_job_id' || :'l_queue' || :'l_kind' || :'l_priority' || :'l_attempt'
    || :'l_max_attempts',
          :a || 'mail' || 'send' || '5' || '1' || '4', 'the job is told in full');
select is(:'l_payload'::jsonb || :'l_headers'::jsonb, '{"to": "ada", "h": 1}',
    'its payload and headers too');
select is(:'l_timeout', '00:00:09'::text, 'its timeout too');
select ok(:'l_till'::boolean, 'a lease is 60 s unless told otherwise');
select is(t.take('mail', 10), null, 'a leased job is not handed out again');
select is((t.of(:a)).status || ' ' || (t.of(:a)).state || ' ' || (t.of(:a)).attempts,
    'running leased 1',
          'A-51 A-52 it is running, with one attempt');
select is((t.of(:a)).locked_by, 'w1', 'B-27 locked_by is the worker');
select is((t.of(:a)).locked_until, t.now() + interval '60 s',
    'B-28 locked_until is the end of its lease');
select is((t.of(:a)).started_at, t.now(), 'started_at is the time of the lease');
select is((t.of(:a)).updated_at, t.now(), 'A-58 updated_at moved');
select is((select count(*) from jobs j where j.id = :a), 1::bigint, 'it is one row of the view');
select is(t.take('nobody-was-here', 10), null, 'a queue nobody used gives nothing');
select is((select count(*) from batchq.queue), 0::bigint, 'and is not set up by the look');

-- the time of a lease: of the call, of the queue, default
select batchq.set_queue('lf', lease_for => '10 s') \g /dev/null
select batchq.enqueue('k', queue => 'lf') from generate_series(1, 2) \g /dev/null
select is((select l.lease_until - t.now() from batchq.lease('lf') l), '10 s',
          'B-10 F008 the queue''s lease_for counts');
select is((select l.lease_until - t.now() from batchq.lease('lf', lease_for => '2 s') l), '2 s',
          'B-10 F008 the call''s goes before it');
select batchq.enqueue('k') \g /dev/null
select is((select l.lease_until - t.now() from batchq.lease() l), '60 s',
    'F008 others keep the default');

-- refusals
select throws_ok(format('select * from batchq.lease(n => %L)', v), 'JQ001', null,
                 format('F065 n of %s is refused', coalesce(v, 'null')))
from unnest(array['0', '-1', null, '10001', '2147483647', '-2147483648']) v;
select throws_ok(format('select * from batchq.lease(lease_for => %L)', v), 'JQ001', null,
                 format('F065 lease_for of %s is refused', v))
from unnest(array['0', '-5 s', '0.099 s', '1000000000 s', '1 day 1 microsecond', '1 mon']) v;
select throws_ok(format('select * from batchq.lease(%L)', v), 'JQ001', null,
    format('F064 queue %L is refused', left(v, 9)))
from unnest(array[null, '', repeat('q', 256), repeat('q', 10000)]) v;
select lives_ok(format('select * from batchq.lease(''bounds'', %s, lease_for => %L)', n, f),
                format('n of %s and lease_for of %s are taken', n, f))
from (values (1, '0.1 s'), (10000, '1 day'), (1, '24 h')) x(n, f);
select is(t.message('select * from batchq.lease(n => 0)'), 'invalid n: 0',
    'the message names the value');

-- order
select batchq.enqueue('k', to_jsonb(p), 'prio', p, run_at => t.now() - r)
from unnest(array[5, 1, 9, 3, 9, -4, 0, -4, 32767, -32768],
            array['1 h', '2 h', '0', '3 h', '5 h', '1 h', '0', '9 h', '0', '0']::interval[]) x(p,
            r) \g /dev/null
select is(string_agg(l.priority::text, ' ' order by l.n), '32767 9 9 5',
          'F016 B-24 rows come best first')
from (select l.priority, row_number() over () as n from batchq.lease('prio', 4) l) l;
select is(string_agg(l.priority::text, ' ' order by l.n), '3 1 0 -4 -4 -32768',
          'B-24 negative priorities come last')
from (select l.priority, row_number() over () as n from batchq.lease('prio', 10) l) l;
select batchq.enqueue('k', to_jsonb(i), 'equal', 7) from generate_series(1, 50) i \g /dev/null
select is(string_agg(l.payload::text, ' ' order by l.n),
    (select string_agg(i::text, ' ') from generate_series(1, 50) i),
          'A-13 C-17 jobs of equal priority come in the order in which they became ready')
from (select l.payload, row_number() over () as n from batchq.lease('equal', 50) l) l;
select batchq.enqueue_many((select jsonb_agg('{"kind": "k", "queue": "deep"}'::jsonb)
    from generate_series(1, 10000))) \g /dev/null
select batchq.enqueue('k', queue => 'deep', priority => 10) as top \gset
select is(t.take('deep'), :'top', 'A-81 behind 10,000 jobs one of higher priority is the next');
select is((select count(distinct l.job_id) from generate_series(1, 20) i,
    batchq.lease('deep', 700 + i) l), 10000::bigint,
          'A-07 F015 leases of any size take each job once');
select is(t.take('deep', 10000), null, 'F015 and leave none');
delete from batchq.leased where queue = 'deep';

-- A-13 scheduled jobs of one time go in order of id, of many times in order of time
select batchq.enqueue('k', '3', 'due', delay => '3 s') as j3,
    batchq.enqueue('k', '1', 'due', delay => '1 s') as j1,
       batchq.enqueue('k', '1', 'due', delay => '1 s') as j1b,
       batchq.enqueue('k', '2', 'due', delay => '2 s') as j2 \gset
select t.pass('5 s') \g /dev/null
select is(t.take('due', 10), concat_ws(' ', :j1, :j1b, :j2, :j3),
    'A-13 C-17 due jobs become ready by run_at, then id');

-- F017 one order over fresh, released, retried and reaped jobs
select batchq.enqueue('k', queue => 'one', priority => 9, backoff => 'fixed',
    backoff_base => '0') as reaped,
       batchq.enqueue('k', queue => 'one', priority => 1) as released \gset
select batchq.lease('one', lease_for => '1 s') \g /dev/null
select batchq.release(l.job_id, l.lease_id) from batchq.lease('one') l \g /dev/null
select t.pass('2 s') \g /dev/null
select batchq.reap() \g /dev/null
select batchq.enqueue('k', queue => 'one') as fresh0,
    batchq.enqueue('k', queue => 'one', priority => 1) as fresh1,
       batchq.enqueue('k', queue => 'one', priority => 10) as fresh10 \gset
select is(t.take('one', 10), concat_ws(' ', :fresh10, :reaped, :released, :fresh1, :fresh0),
          'F017 fresh, released and reaped jobs stand in one order');

-- F012 what was reaped takes a new place behind the rest of its lane
select batchq.enqueue('k', queue => 'jam', backoff => 'fixed', backoff_base => '5 s')
    from generate_series(1, 4) \g /dev/null
select t.take('jam', 4) as hung \gset
select batchq.enqueue('k', queue => 'jam') from generate_series(1, 3) \g /dev/null
select t.pass('61 s') \g /dev/null
select batchq.reap() \g /dev/null
select is((select string_agg(l.attempt::text, ' ') from batchq.lease('jam', 10) l), '1 1 1',
    'F012 reaped jobs wait out their backoff');
select t.pass('5 s') \g /dev/null
select batchq.enqueue('k', queue => 'jam') as late \gset
select is(t.take('jam', 10), :'late' || ' ' || :'hung',
    'F012 and then take a new place, behind what became ready before they did');

-- F017 the reverse: jobs that fail for ever do not starve fresh ones
select batchq.enqueue('bad', queue => 'starve', max_attempts => 32767, backoff => 'fixed',
    backoff_base => '0') from generate_series(1, 50) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('starve', 50) l \g /dev/null
select batchq.enqueue('good', queue => 'starve') from generate_series(1, 10) \g /dev/null
create function t.rounds(queue text, rounds integer, n integer) returns text language plpgsql as $$
declare
    v_kinds text := '';
    v_job batchq.leased_job;
begin
    for v_round in 1..rounds loop
        for v_job in select * from batchq.lease(queue, n) loop
            v_kinds := v_kinds || left(v_job.kind, 1);
            if v_job.kind = 'bad' then
                perform batchq.fail(v_job.job_id, v_job.lease_id, 'e');
            end if;
        end loop;
        perform t.pass('1 ms');
    end loop;
    return v_kinds;
end
$$;
select is(t.rounds('starve', 6, 10), repeat('g', 10) || repeat('b', 50),
    'F017 fresh jobs go before retries that became ready after them');
select batchq.enqueue('good', queue => 'starve') from generate_series(1, 10) \g /dev/null
select is(length(replace(t.rounds('starve', 7, 10), 'b', '')), 10,
    'F017 in seven rounds of ten every fresh one has run among fifty that fail');

-- leases are numbered upwards, never the same again (F002)
select batchq.enqueue('k', queue => 'fence', max_attempts => 2, backoff => 'fixed',
    backoff_base => '0') as a \gset
create temporary table fence (n integer generated always as identity, lease_id bigint);
insert into fence (lease_id) select l.lease_id from batchq.lease('fence') l;
select batchq.fail(:a, t.lease_of(:a), 'e') \g /dev/null
insert into fence (lease_id) select l.lease_id from batchq.lease('fence') l;
select batchq.snooze(:a, t.lease_of(:a), '0') \g /dev/null
insert into fence (lease_id) select l.lease_id from batchq.lease('fence') l;
select batchq.release(:a, t.lease_of(:a)) \g /dev/null
insert into fence (lease_id) select l.lease_id from batchq.lease('fence', lease_for => '1 s') l;
select t.pass('2 s') \g /dev/null
select batchq.reap() \g /dev/null
select is(t.job(:a), 'failed:2', 'F002 the fourth lease of the job runs out on its last attempt');
select batchq.redrive(array[:a]) \g /dev/null
insert into fence (lease_id) select l.lease_id from batchq.lease('fence') l;
select is(count(*), 5::bigint, 'F002 five leases of one job') from fence;
select ok(bool_and(f.rises), 'F002 each has a higher number than the one before')
from (select coalesce(lease_id > lag(lease_id) over (order by n), true) as rises from fence) f;
select is((t.of(:a)).attempts, 1, 'F002 and after redrive attempts count from 1');

-- F022 F064 the worker's name is only shown
select batchq.enqueue('k', queue => 'w') from generate_series(1, 3) \g /dev/null
select is(t.code(format('select * from batchq.lease(''w'', worker => %L)', v)), x,
    format('F064 worker %L: %s', left(v, 10), x))
from (values ('', 'ok'), (E'a"b\n'';--', 'ok'), (repeat('ß', 255), 'ok'),
    (repeat('w', 256), 'JQ001')) w(v, x);

-- queues are apart
select batchq.enqueue('k', queue => 'b') from generate_series(1, 5) \g /dev/null
select is(t.take('a', 10), null, 'A-45 a worker of another queue gets nothing');
select is((select count(*) from jobs where queue = 'b' and state = 'ready'), 5::bigint,
    'A-45 and leaves it untouched');

-- pause
select batchq.enqueue('k', queue => 'p', priority => i) from generate_series(0, 2) i \g /dev/null
select batchq.enqueue('k', queue => 'p', delay => '1 s') \g /dev/null
select batchq.pause('p') \g /dev/null
select t.pass('2 s') \g /dev/null
select is(t.take('p', 10), null, 'a paused queue gives nothing');
select batchq.enqueue('k', queue => 'p', priority => 5) \g /dev/null
select is(t.take('p', 10), null, 'nor what is added meanwhile');
select batchq.resume('p') \g /dev/null
select is((select count(*) from batchq.lease('p', 10)), 5::bigint,
    'after resume it gives all of it');
select batchq.pause('p0') \g /dev/null
select batchq.enqueue('k', queue => 'p0') \g /dev/null
select is(t.take('p0'), null, 'a queue that was paused before its first job gives nothing');

-- lanes nobody knows of, rows below the floor: the empty answer is exact
select batchq.enqueue('k', queue => 'lost', priority => 3) as a \gset
delete from batchq.floor where queue = 'lost';
select is(t.take('lost'), :'a',
    'a job of a lane that no floor tells of is found before the answer is empty');
select batchq.enqueue('k', queue => 'lost', delay => '1 s', priority => -3) as a \gset
delete from batchq.floor where queue = 'lost';
select t.pass('2 s') \g /dev/null
select is(t.take('lost'), :'a', 'so is a due job of one');
select batchq.enqueue('k', queue => 'below', priority => 1) as a \gset
insert into batchq.floor (queue, line, priority, floor, sweep_after) select 'below', 'ready', 1,
    last_value + 100, 'infinity' from batchq.position;
select is(t.take('below'), :'a', 'so is a job below the floor of its lane');
select batchq.enqueue('k', queue => 'below', delay => '1 s') as a \gset
insert into batchq.floor (queue, line, floor, sweep_after) values ('below', 'scheduled',
    batchq._micros(t.now() + interval '1 h'), 'infinity');
select t.pass('2 s') \g /dev/null
select is(t.take('below'), :'a', 'so is a due job below that of scheduled');

-- one bad job does not hold up the rest (F063: a time forced in by an update)
select batchq.enqueue('k', queue => 'far', delay => '1 h') as far,
    batchq.enqueue('k', queue => 'far') as near \gset
update batchq.scheduled set run_at = 'infinity' where job_id = :far;
update batchq.job set run_at = 'infinity' where id = :far;
select is(t.take('far', 10), :'near',
    'F063 a job of time infinity does not keep others from being leased');
select batchq.enqueue('k', queue => 'far', delay => '1 s') as a \gset
update batchq.scheduled set run_at = '-infinity' where job_id = :far;
select t.pass('2 s') \g /dev/null
select is(t.code('select * from batchq.lease(''far'', 10)'), 'ok', 'F063 nor one of -infinity');
select is(t.job(:a), 'leased:1', 'F063 what is due beside it is leased');

-- a clock that is far behind or ahead of the worker's changes nothing: clients send durations
select batchq.enqueue('k', queue => 'env', delay => '1 s') as a \gset
select t.pass('1 s') \g /dev/null
set local timezone = 'Pacific/Apia';
set local datestyle = 'SQL, DMY';
set local intervalstyle = 'iso_8601';
set local search_path = pg_temp;
select l.job_id as got, l.lease_until - t.now() = interval '30 s' as till
    from batchq.lease('env', lease_for => '30 s') l \gset
set local search_path = batchq, pgtap, public;
reset timezone; reset datestyle; reset intervalstyle;
select is(:'got' || :'till', :a || 't',
    'F054 neither TimeZone, DateStyle, IntervalStyle nor search_path mislead it');

-- a cap
select batchq.set_queue('cap', max_running => 4) \g /dev/null
select batchq.enqueue('k', queue => 'cap', priority => i % 3) from generate_series(1, 20) i
    \g /dev/null
select is((select string_agg(l.priority::text, ' ') from batchq.lease('cap', 3) l), '2 2 2',
    'max_running: a lease takes the first by priority');
select is(t.count('cap') || ' ' || t.free('cap'), '1 0', 'F018 and no more than are free');
select is((select max(j.attempts) from batchq.jobs j where j.queue = 'cap' and j.state = 'ready'),
    0, 'F020 what may not run is not leased');
select batchq.set_queue('cap', max_running => 40) \g /dev/null
select is(t.count('cap', 2) || ' ' || t.free('cap'), '2 34', 'what was too much is put back');
select batchq.set_queue('both', max_running => 5, rate => 3, rate_period => '1 s') \g /dev/null
select batchq.enqueue('k', queue => 'both') from generate_series(1, 20) \g /dev/null
select is(t.count('both'), 3::bigint, 'a cap and a rate: the lower counts');
select is(t.free('both'), 2::bigint, 'permits of the cap that the rate does not let use are put back');
select t.pass('1 s') \g /dev/null
select is(t.count('both'), 2::bigint, 'then the cap');
select is(t.free('both', 'rate'), 1::bigint, 'and permits to start are put back');
select is(t.count('cap') || ' ' || t.free('cap'), '14 20',
    'with fewer jobs than permits all start');

-- groups
select batchq.set_queue('gl', group_limit => 2) \g /dev/null
select batchq.enqueue('k', queue => 'gl', group_key => g)
    from unnest(array['a', 'b', 'c']) g, generate_series(1, 3) \g /dev/null
select is((select string_agg(j.group_key, ' ' order by l.place)
           from (select l.job_id, row_number() over () as place from batchq.lease('gl', 10) l) l
           join batchq.jobs j on j.id = l.job_id), 'a b c a b c',
    'first jobs of all groups come before second ones');
select is(t.seats('gl'), 'a:2 b:2 c:2', 'each job of a group has a seat');
select is(t.count('gl'), 0::bigint, 'F018 none starts while its group has none free');
select batchq.set_queue('all', max_running => 3, group_limit => 2) \g /dev/null
select batchq.enqueue('k', queue => 'all', group_key => g)
    from unnest(array['a', 'b']) g, generate_series(1, 3) \g /dev/null
select is(t.count('all'), 3::bigint, 'groups and a cap: the cap counts');
select is(t.seats('all'), 'a:2 b:2', 'a ready job has its seat already');

-- starts of groups
select batchq.set_queue('gr', group_rate => 2, group_period => '10 s') \g /dev/null
select batchq.enqueue('k', queue => 'gr', group_key => g)
    from unnest(array['a', 'b']) g, generate_series(1, 5) \g /dev/null
select is(t.count('gr'), 4::bigint, 'group_rate: so many of each group start');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'gr' \g /dev/null
select t.pass('9.9 s') \g /dev/null
select is(t.count('gr'), 0::bigint, 'and no more in a period, though they have ended');
select t.pass('0.1 s') \g /dev/null
select is(t.count('gr', 1), 1::bigint, 'then the next');
select t.pass('5 s') \g /dev/null
select is(t.count('gr'), 3::bigint, 'a turn that was not used is not lost');
select t.pass('5 s') \g /dev/null
select is(t.count('gr'), 1::bigint, 'each start counts for one period from when it was');

-- turns
select batchq.set_queue('fair', fair => true) \g /dev/null
select batchq.enqueue_many(jsonb_agg('{"kind": "k", "queue": "fair", "group_key": "large"}'::jsonb))
    from generate_series(1, 500) \g /dev/null
select batchq.enqueue('k', queue => 'fair', group_key => 'small' || i)
    from generate_series(1, 4) i \g /dev/null
select batchq.enqueue('k', queue => 'fair') \g /dev/null
select is((select count(*) filter (where j.group_key like 'small%')
           from batchq.lease('fair', 25) l join batchq.jobs j on j.id = l.job_id), 4::bigint,
    'fair: a few jobs are not behind the many of another group');
select is((select count(*) from batchq.ready r where r.queue = 'fair'), 0::bigint,
    'of each group 20 are ready at a time');
select is(t.count('fair'), 20::bigint, 'then the next 20');
select is(t.seats('fair'), '', 'running ones do not count');
select batchq.enqueue('k', queue => 'fair', group_key => 'late') as a \gset
select ok(string_to_array(t.take('fair', 21), ' ') @> array[:'a'],
    'who comes late waits for one round');
select batchq.set_queue('gp', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'gp', group_key => 'a') \g /dev/null
select batchq.pause('gp') \g /dev/null
select is(t.count('gp'), 0::bigint, 'a paused queue gives none of its groups');
select batchq.resume('gp') \g /dev/null
select is(t.count('gp'), 1::bigint, 'until it goes on');

select * from finish();
rollback;
