begin;
select plan(40);
\ir ../clock.psql

-- the gates that hold a job, in their order
create function t.gates(job_id bigint) returns text language sql as $$
    select string_agg(g.gate || case when g.holds then '' else '!' end, ' ' order by g.place)
    from (select g.*, row_number() over () as place from batchq.explain_job($1) g) g
$$;
create function t.says(job_id bigint) returns text language sql as $$
    select g.says from batchq.explain_job($1) g limit 1
$$;
create function t.works(queue text, kinds text[], stopping boolean default false) returns void
language sql as $$
    select batchq.beat_worker(gen_random_uuid(), 'w', 'h', 1, '1', array[$1], $2, 1, 0,
                              stopping => $3)
$$;
create function t.stamp(at timestamptz) returns text language sql
return to_char(at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || 'Z';

select batchq.enqueue('k', queue => 'q') as a \gset
select is(t.gates(:a), 'worker', 'without workers that is the reason');
select is(t.says(:a), 'no live worker says that it works on queue q', 'and said');
select t.works('q', '{x}') \g /dev/null
select is(t.gates(:a), 'kind', 'a worker that does not know the kind');
select t.works('q', '{k}', true) \g /dev/null
select is(t.gates(:a), 'kind', 'one that is stopping takes no more');
select t.works('q', '{k}') \g /dev/null
select is(t.gates(:a), 'next!', 'nothing holds it: it is the next');
select batchq.drain_worker(w.worker_id), batchq.drop_worker(w.worker_id) from batchq.list_workers() w
    where not w.stopping and w.kinds = '{x}' \g /dev/null
savepoint drained;
select batchq.drain_worker(w.worker_id) from batchq.list_workers() w \g /dev/null
select is(t.gates(:a), 'worker', 'workers that were asked to drain take no more');
rollback to drained;
select t.pass('2 min') \g /dev/null
select is(t.says(:a), 'no live worker says that it works on queue q; the last did at '
    || t.stamp(t.now() - interval '2 min'), 'after 90 s of silence a worker does not count');
select t.works('q', '{k}') \g /dev/null

select batchq.enqueue('k', queue => 'q', delay => '1 h') as later \gset
select is(t.gates(:later), 'due', 'a delayed job is not due');
select is(g.until, t.now() + interval '1 h', 'until its time') from batchq.explain_job(:later) g;
select batchq.pause('q', 'why') \g /dev/null
select is(t.gates(:later), 'due paused', 'a paused queue holds it as well');
select is(t.says(:a), 'queue q is paused since ' || t.stamp(t.now()) || ' by ' || session_user
    || ': why', 'paused: since when, by whom and why');
select is(g.data - 'paused_at', jsonb_build_object('paused_by', session_user, 'reason', 'why'),
    'the same as data') from batchq.explain_job(:a) g;
select batchq.resume('q') \g /dev/null
select t.pass('1 h') \g /dev/null
select t.works('q', '{k}') \g /dev/null
select is(t.gates(:later), 'behind', 'once it is due, ready jobs go first');

select batchq.set_queue('q', max_running => 1) \g /dev/null
select t.take('q') \g /dev/null
select is(t.gates(:a), 'running!', 'it runs');
select is(t.gates(:later), 'cap', 'the cap is reached');
select is(t.says(:later), format('queue q is at its cap of 1 running: %s', :a), 'by whom');
select batchq.set_queue('q', max_running => 0) \g /dev/null
select is(t.says(:later), format('queue q is stopped, its cap is 0: %s', :a), 'a cap of 0');
select batchq.set_queue('q', reset => true, rate => 2, rate_period => '1 min') \g /dev/null
select t.take('q', 5) \g /dev/null
select batchq.enqueue('k', queue => 'q') as b \gset
select is(t.gates(:b), 'next!', 'one start is left');
select batchq.lease('q') \g /dev/null
select batchq.enqueue('k', queue => 'q') as c \gset
select is(t.gates(:c), 'rate', 'none is left');
select is(g.until, t.now() + interval '1 min', 'until the first comes back')
    from batchq.explain_job(:c) g;
select is(t.says(:c), 'queue q may start 2 in 60 s, the next at '
    || t.stamp(t.now() + interval '1 min'), 'and said');
select t.pass('1 min') \g /dev/null
select is(t.gates(:c), 'next!', 'then it may start');

select t.works('g', '{k}') \g /dev/null
select batchq.set_queue('g', group_limit => 1, group_rate => 2, group_period => '1 h') \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => 'x') as g1 \gset
select batchq.enqueue('k', queue => 'g', group_key => 'x') as g2 \gset
select batchq.enqueue('k', queue => 'g', group_key => 'x') as g3 \gset
select is(t.gates(:g1), 'next!', 'the first of its group is next');
select is(t.gates(:g2), 'group_behind', 'the second is not');
select t.take('g', 5) \g /dev/null
select is(t.says(:g2), format('group x is at its limit of 1: %s (leased)', :g1), 'who has the seat');
select is(t.gates(:g3), 'group group_behind', 'and the third waits for both');
select is(g.data ->> 'jobs', '1', 'one goes before it')
    from batchq.explain_job(:g3) g where g.gate = 'group_behind';
select batchq.complete(:g1, t.lease_of(:g1)) \g /dev/null
select t.take('g', 5) \g /dev/null
select batchq.complete(:g2, t.lease_of(:g2)) \g /dev/null
select is(t.gates(:g3), 'group_rate', 'its group started as many as it may');
select is(g.until, t.now() + interval '1 h', 'until the first start is a period ago')
    from batchq.explain_job(:g3) g;
select batchq.set_group('g', 'x', group_limit => 0) \g /dev/null
select is(t.gates(:g3), 'group group_rate', 'both hold');

select is(t.gates(t.job_in('completed', 'over')), 'finished!', 'one that completed');
select is(t.says(t.job_in('cancelled', 'over')) ~ '^it is over: cancelled at ', true, 'cancelled');
select is(t.says(t.job_in('failed', 'over')), 'it is over: failed at ' || t.stamp(t.now())
    || ', attempt 1 of 1: e', 'failed, and why');
select batchq.enqueue('k', queue => 'q2') as r \gset
select batchq.lease('q2', worker => 'w9', lease_for => '1 min') \g /dev/null
select is(g.until, t.now() + interval '1 min', 'a lease has an end')
    from batchq.explain_job(:r) g;
select batchq.cancel(:r) \g /dev/null
select is(t.gates(:r), 'running! cancelling!', 'it was asked to stop');
select t.pass('2 min') \g /dev/null
select is(t.says(:r) ~ '^the lease of worker w9 ran out at ', true, 'a lease that ran out');

select is(t.code('select batchq.explain_job(-1)'), 'JQ003', 'no such job');
set local role batchq_monitor;
select count(*) as seen from batchq.explain_job(:r) \gset
reset role;
select is(:seen, 2, 'F074 the role batchq_monitor may call it');

-- a job that rose to a higher lane is looked for there
select t.works('old', '{k}'), batchq.set_queue('old', age_every => '1 min') \g /dev/null
select batchq.enqueue('k', queue => 'old') as low \gset
select t.pass('50 s'), t.works('old', '{k}') \g /dev/null
select batchq.enqueue('k', queue => 'old', priority => 1) as high \gset
select is(t.gates(:low), 'behind', 'a job of a higher priority goes first');
select t.pass('10 s'), batchq._age(10), batchq.cancel(:high) \g /dev/null
select batchq.enqueue('k', queue => 'old', priority => 1) \g /dev/null
select is(t.gates(:low), 'next!', 'unless the job has waited for long: it is before others now');

select * from finish();
rollback;
