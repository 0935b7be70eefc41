begin;
select plan(47);
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

select * from finish();
rollback;
