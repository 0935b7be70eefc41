begin;
select plan(132);
\ir ../clock.psql

create function t.defaults(q batchq.queue) returns text language sql as $$
    select row(q.queue, q.max_attempts, q.timeout, q.lease_for, q.backoff, q.backoff_base,
        q.backoff_factor, q.backoff_cap, q.backoff_jitter, q.paused_at, q.paused_by,
        q.pause_reason)::text
$$;

select batchq.set_queue('q', 5, '7 s', '30 s', 'fixed', '3 s', 1.5, '1 h', 'none') \g /dev/null
select is(t.defaults(q), row('q', 5::smallint, interval '7 s', interval '30 s', 'fixed',
    interval '3 s', 1.5::double precision,
                              interval '1 h', 'none', null, null, null)::text,
                              'every setting is kept') from batchq.queue q where q.queue = 'q';
select batchq.set_queue('q', max_attempts => 6) \g /dev/null
select is(t.defaults(q), row('q', 6::smallint, interval '7 s', interval '30 s', 'fixed',
    interval '3 s', 1.5::double precision,
                              interval '1 h', 'none', null, null, null)::text,
                              'a value that is null stays as it was') from batchq.queue q
                              where q.queue = 'q';
select batchq.set_queue('q', timeout => '7 s') \g /dev/null
select is(q.max_attempts, 6::smallint, 'whichever it is') from batchq.queue q where q.queue = 'q';
select batchq.set_queue('q', timeout => '8 s', reset => true) \g /dev/null
select is(t.defaults(q), row('q', null, interval '8 s', null, null, null, null, null, null, null,
    null, null)::text, 'reset first sets all to none')
from batchq.queue q where q.queue = 'q';
select batchq.pause('q', 'why') \g /dev/null
select batchq.set_queue('q', reset => true) \g /dev/null
select is(q.pause_reason, 'why', 'reset does not resume') from batchq.queue q where q.queue = 'q';
select lives_ok($$ select batchq.set_queue('new') $$,
    'a queue may be set up before its first job, with nothing');
select lives_ok($$ select batchq.set_queue('new', reset => null) $$, 'reset null is no reset');
select is((select count(*) from batchq.queue where queue = 'new'), 1::bigint,
    'asked twice is no error');

-- for jobs, leases and retries from now on
select batchq.enqueue('k', queue => 'e') as before \gset
select batchq.set_queue('e', max_attempts => 5, timeout => '9 s', lease_for => '20 s',
    backoff => 'fixed', backoff_base => '4 s') \g /dev/null
select batchq.enqueue('k', queue => 'e') as after \gset
select is((t.of(:before)).max_attempts || ' ' || coalesce((t.of(:before)).timeout::text, 'none'),
    '3 none', 'max_attempts and timeout leave older jobs alone');
select is((t.of(:after)).max_attempts || ' ' || (t.of(:after)).timeout, '5 00:00:09',
    'B-26 C-4 and count for new ones');
select is(string_agg((l.lease_until - t.now())::text, ' '), '00:00:20 00:00:20',
    'B-10 lease_for counts for every lease from now on') from batchq.lease('e', 2) l;
select batchq.fail(id, t.lease_of(id), 'e')
    from unnest(array[:before, :after]::bigint[]) id \g /dev/null
select is(t.wait(:before) || ' ' || t.wait(:after), '00:00:04 00:00:04',
    'A-19 C-1 the backoff counts for every retry from now on');

-- bounds
select throws_ok(format('select batchq.set_queue(%L)', v), 'JQ001', null,
    format('D-6 F064 queue %L is refused', left(v, 9)))
    from unnest(array[null, '', repeat('q', 256), repeat('q', 10000)]) v;
select throws_ok(format('select batchq.set_queue(''b'', %s)', v), 'JQ001', null,
    format('F065 %s is refused', v))
from unnest(array['max_attempts => 0', 'max_attempts => -1', 'max_attempts => 32768',
    'timeout => ''0''', 'timeout => ''-1 s''', 'timeout => ''366 days''', 'lease_for => ''0''',
    'lease_for => ''-5 s''',
                  'lease_for => ''2 days''', 'backoff => ''linear''', 'backoff => ''''',
                  'backoff_base => ''-1 s''', 'backoff_base => ''366 days''', 'backoff_factor => 0',
                  'backoff_factor => 101',
                  'backoff_factor => ''NaN''', 'backoff_factor => ''Infinity''',
                  'backoff_cap => ''-1 s''', 'backoff_cap => ''366 days''',
                  'backoff_jitter => ''half''']) v;
select lives_ok(format('select batchq.set_queue(''b'', %s)', v), format('%s is taken', v))
from unnest(array['max_attempts => 1', 'max_attempts => 32767', 'timeout => ''10 ms''',
    'timeout => ''365 days''', 'lease_for => ''0.1 s''', 'lease_for => ''1 day''',
    'backoff_base => ''0''', 'backoff_cap => ''365 days''',
                  'backoff_factor => 1', 'backoff_factor => 100']) v;
select is((select count(*) from batchq.queue where queue in ('', repeat('q', 256))), 0::bigint,
    'what was refused is not kept');

-- limits: bounds
select throws_ok(format('select batchq.set_queue(''b'', %s)', v), 'JQ001', null,
    format('F065 %s is refused', v))
from unnest(array['max_running => -1', 'max_running => 1000001', 'rate => -1', 'rate => 1000001',
    'rate_period => ''0''', 'rate_period => ''99 ms''', 'rate_period => ''31 days''',
    'group_limit => -1', 'group_limit => 10001', 'group_rate => -1', 'group_rate => 10001',
    'group_period => ''-1 s''', 'group_period => ''31 days''', 'group_retry => ''keep''',
    'age_every => ''0.9 s''', 'age_every => ''366 days''', 'max_depth => 0',
    'max_depth => 100001', 'on_full => ''drop''', 'clear => ''{queue}''',
    'clear => ''{rate,null}''']) v;
select lives_ok(format('select batchq.set_queue(''b'', %s)', v), format('%s is taken', v))
from unnest(array['max_running => 0', 'max_running => 1000000', 'rate => 0', 'rate => 1000000',
    'rate_period => ''100 ms''', 'rate_period => ''30 days''', 'group_limit => 0',
    'group_limit => 10000', 'group_rate => 0', 'group_rate => 10000', 'max_depth => 100000',
    'clear => ''{rate,max_running}''', 'clear => ''{}''']) v;

-- limits: kept, cleared, reset
create function t.limits(queue text) returns text language sql as $$
    select concat_ws(' ', q.max_running, q.rate, q.rate_period, q.group_limit, q.group_rate,
        q.group_period, q.group_retry, q.fair, q.age_every, q.max_depth, q.on_full)
    from batchq.queue q where q.queue = $1
$$;
select batchq.set_queue('l', max_running => 3, rate => 4, rate_period => '5 s', group_limit => 6,
    group_rate => 7, group_period => '8 s', group_retry => 'hold', fair => true,
    age_every => '9 s', max_depth => 10, on_full => 'delay') \g /dev/null
select is(t.limits('l'), '3 4 00:00:05 6 7 00:00:08 hold t 00:00:09 10 delay',
    'every limit is kept');
select batchq.set_queue('l', rate => 40) \g /dev/null
select is(t.limits('l'), '3 40 00:00:05 6 7 00:00:08 hold t 00:00:09 10 delay',
    'one that is null stays as it was');
select batchq.set_queue('l', max_running => 30, clear => '{rate,group_limit,fair,on_full}')
    \g /dev/null
select is(t.limits('l'), '30 00:00:05 7 00:00:08 hold 00:00:09 10', 'clear unsets those it names');
select batchq.set_queue('l', rate => 2, clear => '{rate}') \g /dev/null
select is((select q.rate from batchq.queue q where q.queue = 'l'), 2,
    'a value that is given counts more');
select batchq.set_queue('l', lease_for => '4 s', reset => true) \g /dev/null
select is(t.limits('l'), '', 'reset unsets all');
select is((select count(*) from batchq.permit p where p.queue = 'l'), 0::bigint,
    'and no permit is left');

-- the cap: exact, changed while jobs run
select batchq.set_queue('cap', max_running => 3) \g /dev/null
select batchq.enqueue('k', queue => 'cap') from generate_series(1, 30) \g /dev/null
select is(t.count('cap'), 3::bigint, 'max_running: so many start, and no more');
select is(t.count('cap'), 0::bigint, 'none while they run');
select batchq.set_queue('cap', max_running => 5) \g /dev/null
select is(t.count('cap'), 2::bigint, 'raised: more start');
select batchq.set_queue('cap', max_running => 2) \g /dev/null
select is(t.count('cap'), 0::bigint, 'lowered: none starts');
select batchq.complete(l.job_id, l.lease_id)
    from (select * from batchq.leased l where l.queue = 'cap' limit 3) l \g /dev/null
select is(t.count('cap'), 0::bigint, 'until fewer run');
select batchq.complete(l.job_id, l.lease_id)
    from (select * from batchq.leased l where l.queue = 'cap' limit 1) l \g /dev/null
select is(t.count('cap'), 1::bigint, 'then one by one');
select batchq.set_queue('cap', max_running => 1) \g /dev/null
select batchq.set_queue('cap', max_running => 4) \g /dev/null
select is(t.count('cap'), 2::bigint, 'lowered and raised: what ran counts');
select batchq.set_queue('cap', max_running => 0) \g /dev/null
select is(t.count('cap'), 0::bigint, '0 stops the queue');
select batchq.set_queue('cap', clear => '{max_running}') \g /dev/null
select is(t.count('cap', 7), 7::bigint, 'removed: none counts');
select is(q.slots_owed, 0, 'and none is owed') from batchq.queue q where q.queue = 'cap';
select batchq.set_queue('cap', max_running => 12) \g /dev/null
select is(t.count('cap'), 1::bigint, 'set again: those that run count');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'cap' \g /dev/null
select t.pass('5 s') \g /dev/null
select batchq.maintain() \g /dev/null
select is(t.free('cap'), 12::bigint,
    'those that started without a limit have given their permits back after the next upkeep');

-- the rate: exact, changed
select batchq.set_queue('rate', rate => 4, rate_period => '10 s') \g /dev/null
select batchq.enqueue('k', queue => 'rate') from generate_series(1, 200) \g /dev/null
select is(t.count('rate', 3), 3::bigint, 'rate: so many start');
select t.pass('6 s') \g /dev/null
select is(t.count('rate'), 1::bigint, 'and no more');
select t.pass('3.9 s') \g /dev/null
select is(t.count('rate'), 0::bigint, 'none within a period');
select t.pass('0.1 s') \g /dev/null
select is(t.count('rate'), 3::bigint, 'each start counts for one period');
select t.pass('6 s') \g /dev/null
select is(t.count('rate'), 1::bigint, 'from when it was');
select batchq.set_queue('rate', rate => 6) \g /dev/null
select is(t.count('rate'), 2::bigint, 'raised: more start at once');
select batchq.set_queue('rate', rate => 2) \g /dev/null
select t.pass('9.9 s') \g /dev/null
select is(t.count('rate'), 0::bigint, 'lowered: the last starts still count');
select t.pass('0.1 s') \g /dev/null
select is(t.count('rate'), 2::bigint, 'then there are as many as it says');
select batchq.set_queue('rate', rate_period => '4 s') \g /dev/null
select t.pass('3.9 s') \g /dev/null
select is(t.count('rate'), 0::bigint, 'a shorter period counts from the starts that were');
select t.pass('0.1 s') \g /dev/null
select is(t.count('rate'), 2::bigint, 'to the moment');
select batchq.set_queue('rate', rate_period => '20 s') \g /dev/null
select t.pass('19.9 s') \g /dev/null
select is(t.count('rate'), 0::bigint, 'so does a longer one');
select t.pass('0.1 s') \g /dev/null
select is(t.count('rate'), 2::bigint, 'to the moment');
select t.pass('1 min') \g /dev/null
select batchq.set_queue('rate', rate_period => '1 day') \g /dev/null
select is(t.count('rate'), 2::bigint, 'a permit that is back stays there when the period grows');
select batchq.set_queue('rate', rate => 0) \g /dev/null
select t.pass('2 days') \g /dev/null
select is(t.count('rate'), 0::bigint, 'rate 0 stops the queue');
select batchq.set_queue('rate', clear => '{rate}') \g /dev/null
select is(t.count('rate', 9), 9::bigint, 'removed: any number starts');

-- group settings, changed while jobs wait
create function t.run_all(queue text) returns text language plpgsql as $$
declare
    v_all text;
    v_job record;
begin
    for v_try in 1..20 loop
        for v_job in select l.* from batchq.lease($1) l loop
            v_all := concat_ws(' ', v_all, v_job.priority);
            perform batchq.complete(v_job.job_id, v_job.lease_id);
        end loop;
    end loop;
    return v_all;
end
$$;
select batchq.set_queue('g', group_limit => 2) \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => 'a') from generate_series(1, 12) \g /dev/null
select is(t.count('g'), 2::bigint, 'group_limit: so many of a group start');
select batchq.set_queue('g', group_limit => 5) \g /dev/null
select is(t.count('g'), 3::bigint, 'raised: more start');
select batchq.set_queue('g', group_limit => 4) \g /dev/null
select batchq.complete(l.job_id, l.lease_id)
    from (select * from batchq.leased l where l.queue = 'g' limit 1) l \g /dev/null
select is(t.count('g'), 0::bigint, 'lowered: none starts until fewer run');
select batchq.complete(l.job_id, l.lease_id)
    from (select * from batchq.leased l where l.queue = 'g' limit 1) l \g /dev/null
select is(t.count('g') || ' ' || t.seats('g'), '1 a:4', 'then one by one');
select batchq.set_queue('g', group_limit => 0) \g /dev/null
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'g' \g /dev/null
select is(t.count('g'), 0::bigint, '0 stops the groups');
select batchq.set_queue('g', group_limit => 1, group_rate => 1, group_period => '5 s') \g /dev/null
select is(t.count('g'), 1::bigint, 'opened again: the next starts');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'g' \g /dev/null
select is(t.count('g'), 0::bigint, 'group_rate: one a period');
select batchq.set_queue('g', clear => '{group_rate}') \g /dev/null
select is(t.count('g'), 1::bigint, 'removed: the next starts at once');
select batchq.set_queue('g', clear => '{group_limit}') \g /dev/null
select is(t.in_state('g', 'blocked') <> '' and t.count('g') = 4, true,
    'group_limit removed: all that wait start');
select is(t.in_state('g', 'blocked'), '', 'none is left behind');
select is(t.job(batchq.enqueue('k', queue => 'g', group_key => 'a')), 'ready:0',
    'a new job does not wait');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'g' \g /dev/null
select is(t.count('g') || t.seats('g'), '1', 'and no seat is left taken');
select batchq.set_queue('f', group_limit => 3) \g /dev/null
select batchq.enqueue('k', queue => 'f', group_key => 'a', priority => p) as id
    from unnest(array[0, 9, -5, 9]) p \g /dev/null
select batchq.set_queue('f', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'f', group_key => 'a', priority => 20) \g /dev/null
select is(t.run_all('f'), '0 9 -5 9 20',
    'group_limit becomes 1: those that wait go in the order of enqueue');
select batchq.enqueue('k', queue => 'f', group_key => 'a', priority => p) as id
    from unnest(array[0, 9, -5, 9]) p \g /dev/null
select batchq.set_queue('f', group_limit => 2) \g /dev/null
select is(t.run_all('f'), '9 9 0 -5', 'and by priority when it becomes more');
select batchq.enqueue('k', queue => 'old', group_key => 'a', delay => '1 s'),
    batchq.enqueue('k', queue => 'old', group_key => 'a'),
    batchq.enqueue('k', queue => 'old', group_key => 'a'),
    batchq.enqueue('k', queue => 'old') \g /dev/null
select batchq.set_queue('old', group_limit => 1) \g /dev/null
select is(t.count('old'), 2::bigint, 'jobs from before group_limit was set wait for their turn too');
select t.pass('1 s') \g /dev/null
select is(t.count('old'), 0::bigint, 'so do those that become due');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'old' \g /dev/null
select is(t.count('old'), 1::bigint, 'one after the other');
select is(t.seats('old'), 'a:1', 'with a seat each');

select * from finish();
rollback;
