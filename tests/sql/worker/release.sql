begin;
select plan(33);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'r', dedupe_key => 'K') as a,
    batchq.enqueue('k', queue => 'r') as b \gset
select l.lease_id as l from batchq.lease('r', worker => 'w') l \gset
select t.pass('1 s') \g /dev/null
select is(batchq.release(:a, :l), 'ready', 'release makes the job ready');
select is(t.job(:a), 'ready:0', 'and gives the attempt back');
select is((t.of(:a)).updated_at, t.now(), 'A-58 updated_at moved');
select is((t.of(:a)).available_at, t.now(), 'it is available from now');
select ok(num_nonnulls((t.of(:a)).locked_by, (t.of(:a)).locked_until, (t.of(:a)).started_at) = 0,
    'B-27 B-28 nobody holds it');
select is(batchq.enqueue('k', queue => 'r', dedupe_key => 'K'), :a::bigint,
    'C-6 it still holds its key');
select is((t.of(:a)).last_error, null, 'no error is noted');
select is(t.take('r', 2), :'b' || ' ' || :'a', 'C-17 it stands behind the ready jobs of its lane');
select is(t.job(:a), 'leased:1', 'A-52 and its next lease is the first attempt again');
select batchq.enqueue('k', queue => 'many', max_attempts => 1) as a \gset
select is(string_agg(batchq.release(l.job_id, l.lease_id) || l.attempt, ' '), 'ready1',
    'a job of one attempt may be released') from batchq.lease('many') l;
select is(string_agg(batchq.release(l.job_id, l.lease_id) || l.attempt, ' '), 'ready1',
    'as often as one likes') from batchq.lease('many') l;
select is(batchq.fail(l.job_id, l.lease_id, 'e'), 'failed', 'and fails all the same')
    from batchq.lease('many') l;
select batchq.enqueue('k', queue => 'pri', priority => 4) as a,
    batchq.enqueue('k', queue => 'pri', priority => 3) as b \gset
select batchq.release(l.job_id, l.lease_id) from batchq.lease('pri') l \g /dev/null
select is(t.take('pri'), :'a', 'a released job keeps its priority');

select batchq.enqueue('k', queue => 'x') as c, batchq.enqueue('k', queue => 'x') as d \gset
select max(l.lease_id) filter (where job_id = :c) as lc,
    max(l.lease_id) filter (where job_id = :d) as ld
    from batchq.lease('x', 2, lease_for => '1 s') l \gset
select throws_ok(format('select batchq.release(%L, %L)', j, l), 'JQ004', null, d)
from (values (:c::bigint, :ld::bigint, 'F009 another job''s lease is refused'),
    (:c, null, 'a lease of null is refused'),
             (null, :lc, 'a job of null is refused'), (-1, 1, 'an unknown job is refused')) x(j, l,
             d);
select is(t.job(:c), 'leased:1', 'none of them touched it');
select t.pass('2 s') \g /dev/null
select is(batchq.release(:c, :lc), 'ready',
    'F003 after lease_until the holder may release it until it is taken back');
select throws_ok(format('select batchq.release(%s, %s)', :c, :lc), 'JQ004', null,
    'a lease that was handed back is lost');
select batchq.reap() \g /dev/null
select throws_ok(format('select batchq.release(%s, %s)', :d, :ld), 'JQ004', null,
    'F003 so is one that was reaped');
select is(t.job(:d), 'scheduled:1', 'F003 the reaper''s decision stands');
select t.job_in('completed', 'done') as a \gset
select throws_ok(format('select batchq.release(%s, %s)', :a, o.lease_id), 'JQ004', null,
    'so is one of a completed job') from batchq.outcome o where o.job_id = :a;

-- asked to stop
select batchq.enqueue('k', queue => 'stop', dedupe_key => 'K') as a \gset
select l.lease_id as l from batchq.lease('stop') l \gset
select batchq.cancel(:a) \g /dev/null
select is(batchq.release(:a, :l), 'cancelled', 'A-83 a job that was asked to stop is cancelled');
select is(t.job(:a), 'cancelled:1', 'A-83 and is nowhere else');
select isnt(batchq.enqueue('k', queue => 'stop', dedupe_key => 'K'), :a::bigint,
    'F025 its key is free');

-- what a job held is given back, and its place kept
select batchq.set_queue('lim', max_running => 2, group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'lim', group_key => 'g') as a,
    batchq.enqueue('k', queue => 'lim', group_key => 'g') as b \gset
select t.take('lim', 9) \g /dev/null
select batchq.release(:a, t.lease_of(:a)) \g /dev/null
select is(t.free('lim'), 2::bigint, 'F019 the permit comes back');
select is(t.seats('lim') || ' ' || t.job(:a), 'g:1 ready:0', 'the seat is kept: the job is ready');
select is(t.take('lim', 9), :'a', 'so it is not overtaken in its group');
select batchq.set_queue('gr', group_rate => 1, group_period => '5 s') \g /dev/null
select batchq.enqueue('k', queue => 'gr', group_key => 'g') as c \gset
select t.take('gr') \g /dev/null
select batchq.release(:c, t.lease_of(:c)) \g /dev/null
select is(t.take('gr'), null, 'where starts of a group are limited, another start needs its permit');
select t.pass('5 s') \g /dev/null
select is(t.take('gr') || ' ' || t.seats('gr'), :c || ' g:1', 'then it starts');
select batchq.cancel(:c), batchq.release(:c, t.lease_of(:c)) \g /dev/null
select is(t.job(:c), 'cancelled:1', 'one that was asked to stop is cancelled');
select is(t.count('gr') || t.seats('gr'), '0', 'F080 and gives its seat back');

select * from finish();
rollback;
