begin;
select plan(32);
\ir ../clock.psql

select batchq.enqueue('k', queue => 's', dedupe_key => 'K') as a \gset
select is(batchq.snooze(l.job_id, l.lease_id, '10 min'), 'scheduled', 'snooze puts the job off')
    from batchq.lease('s') l;
select is(t.job(:a) || ' ' || t.wait(:a), 'scheduled:0 00:10:00',
    'for its delay, the attempt given back');
select is((t.of(:a)).available_at, t.now() + interval '10 min',
    'A-56 available_at shows until when');
select is((t.of(:a)).updated_at, t.now(), 'A-58 updated_at moved');
select is(batchq.enqueue('k', queue => 's', dedupe_key => 'K'), :a::bigint,
    'C-6 it still holds its key');
select t.pass('9 min 59 s') \g /dev/null
select is(t.take('s'), null, 'it is not handed out before');
select t.pass('1 s') \g /dev/null
select is(string_agg(batchq.snooze(l.job_id, l.lease_id, v.delay) || l.attempt, ' '), 'ready1',
    'a delay of ' || coalesce(v.delay::text, 'null') || ' means now')
from (values (interval '0')) v(delay), batchq.lease('s') l group by v.delay;
select is(string_agg(batchq.snooze(l.job_id, l.lease_id, v.delay) || l.attempt, ' '), 'ready1',
    'F067 a delay of ' || coalesce(v.delay::text, 'null') || ' means now')
from (values (interval '-5 s')) v(delay), batchq.lease('s') l group by v.delay;
select is(string_agg(batchq.snooze(l.job_id, l.lease_id, null) || l.attempt, ' '), 'ready1',
    'a delay of null means now') from batchq.lease('s') l;
select l.lease_id as l from batchq.lease('s') l \gset
select throws_ok(format('select batchq.snooze(%s, %s, %L)', :a, :l, v), 'JQ001', null,
    format('F067 a delay of %s is refused', v))
    from unnest(array['11 years', '-11 years', '1000000000000 s']) v;
select is(t.job(:a), 'leased:1', 'and the job is still leased');
select is(batchq.snooze(:a, :l, '10 years'), 'scheduled', 'a delay of 10 years is taken');

-- F014 snoozing gives the attempt back; failures before it stay counted
create function t.once(queue text, what text) returns text language plpgsql as $$
declare
    v_job batchq.leased_job;
begin
    perform t.pass('1 s');
    select * into v_job from batchq.lease(queue);
    return case what when 'snooze' then batchq.snooze(v_job.job_id, v_job.lease_id, '1 s')
                     else batchq.fail(v_job.job_id, v_job.lease_id, 'e', retry_in => '1 s') end;
end
$$;
select batchq.enqueue('k', queue => 'f14', max_attempts => 3) as a \gset
select is(string_agg(t.once('f14', 'snooze'), ' '),
    'scheduled scheduled scheduled scheduled scheduled', 'F014 five snoozes')
    from generate_series(1, 5);
select is(string_agg(t.once('f14', 'fail'), ' '), 'scheduled scheduled',
    'F014 and then two failures leave an attempt') from generate_series(1, 2);
select is(t.job(:a), 'scheduled:2', 'F014 two attempts are counted');
select batchq.enqueue('k', queue => 'f14b', max_attempts => 3) as a \gset
select is(string_agg(t.once('f14b', w), ' '), 'scheduled scheduled scheduled scheduled failed',
    'F014 a snooze does not reset the failures')
from unnest(array['fail', 'snooze', 'fail', 'snooze', 'fail']) w;
select is(t.job(:a), 'failed:3', 'F014 the third failure is the last');

-- lost
select batchq.enqueue('k', queue => 'x') as c, batchq.enqueue('k', queue => 'x') as d \gset
select max(l.lease_id) filter (where job_id = :c) as lc,
    max(l.lease_id) filter (where job_id = :d) as ld
    from batchq.lease('x', 2, lease_for => '1 s') l \gset
select throws_ok(format('select batchq.snooze(%L, %L, ''1 s'')', j, l), 'JQ004', null, d)
from (values (:c::bigint, :ld::bigint, 'F009 another job''s lease is refused'),
    (:c, null, 'a lease of null is refused'),
             (null, :lc, 'a job of null is refused'), (-1, 1, 'an unknown job is refused')) x(j, l,
             d);
select t.pass('2 s') \g /dev/null
select is(batchq.snooze(:c, :lc, '1 h'), 'scheduled',
    'F003 after lease_until the holder may put it off until it is taken back');
select batchq.reap() \g /dev/null
select throws_ok(format('select batchq.snooze(%s, %s, ''1 s'')', :d, :ld), 'JQ004', null,
    'F003 once it is reaped the lease is lost');
select batchq.enqueue('k', queue => 'stop') as a \gset
select l.lease_id as l from batchq.lease('stop') l \gset
select batchq.cancel(:a) \g /dev/null
select is(batchq.snooze(:a, :l, '1 h') || ' ' || t.job(:a), 'cancelled cancelled:1',
    'A-83 a job that was asked to stop is cancelled');

-- limits: the permit comes back; the place in its group is kept where one runs at a time
select batchq.set_queue('lim', max_running => 1) \g /dev/null
select batchq.enqueue('k', queue => 'lim') as a \gset
select t.take('lim') \g /dev/null
select batchq.snooze(:a, t.lease_of(:a), '5 s') \g /dev/null
select is(t.free('lim'), 1::bigint, 'F019 a job that waits holds no permit');
select batchq.set_queue('g1', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g') as a,
    batchq.enqueue('k', queue => 'g1', group_key => 'g') as b \gset
select t.take('g1') \g /dev/null
select batchq.snooze(:a, t.lease_of(:a), '5 s') \g /dev/null
select is(t.take('g1'), null, 'group_limit 1: it is not overtaken');
select t.pass('5 s') \g /dev/null
select is(t.take('g1'), :'a', 'it is the next');
select batchq.set_queue('g1', group_retry => 'yield') \g /dev/null
select batchq.snooze(:a, t.lease_of(:a), '5 s') \g /dev/null
select is(t.take('g1'), :'b', 'group_retry yield: the next one goes first');
select batchq.complete(:b, t.lease_of(:b)), t.pass('5 s') \g /dev/null
select is(t.take('g1'), :'a', 'then it has its turn');
select batchq.complete(:a, t.lease_of(:a)) \g /dev/null
select is(t.count('g1') || t.seats('g1'), '0', 'all seats are free at the end');

select * from finish();
rollback;
