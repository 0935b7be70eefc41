begin;
select plan(86);
\ir ../clock.psql

create function t.priority(job_id bigint) returns integer language sql as $$
    select j.priority from batchq.jobs j where j.id = $1
$$;
create function t.places(job_id bigint) returns text language sql as $$
    select string_agg(x, ' ') from (
        select 'ready ' || r.priority as x from batchq.ready r where r.job_id = $1
        union all select 'scheduled ' || s.priority from batchq.scheduled s where s.job_id = $1
        union all select 'blocked ' || b.priority from batchq.blocked b where b.job_id = $1
        union all select 'leased ' || l.priority from batchq.leased l where l.job_id = $1
        union all select 'dead ' || d.priority from batchq.dead d where d.job_id = $1) p
$$;

-- priority of ready jobs
select batchq.enqueue('k', queue => 'q') as a, batchq.enqueue('k', queue => 'q') as b,
    batchq.enqueue('k', queue => 'q', priority => 5) as c,
    batchq.enqueue('k', queue => 'q', priority => 5, dedupe_key => 'd') as d \gset
select t.pass('10 s') \g /dev/null
select is(batchq.set_job(:b, priority => 5), 'ready', 'a ready job takes another priority');
select is(t.places(:b), 'ready 5', 'it is in one place');
select is(j.run_at, t.now() - interval '10 s', 'and was ready as long as before') from t.of(:b) j;
select is(batchq.set_job(:c, priority => 0), 'ready', 'a lower one too');
select is(batchq.set_job(:d, priority => 5), 'ready', 'the same one');
select is(r.pos, :d::bigint, 'which moves nothing') from batchq.ready r where r.job_id = :d;
select is(t.take('q', 9), format('%s %s %s %s', :d, :b, :a, :c),
    'it stands behind the others that have the priority');
select is(t.places(:b), 'leased 5', 'a lease tells its present priority');
select is(batchq.set_job(batchq.enqueue('k', queue => 'lanes'), 32767), 'ready', 'up to the highest');
select is(t.count('lanes'), 1::bigint, 'in a lane that nobody knew');
select is(batchq.set_job(batchq.enqueue('k', queue => 'lanes'), -32768), 'ready', 'and the lowest');
select is(t.count('lanes'), 1::bigint, 'too');

-- what reads it
select batchq.enqueue('k', queue => 'v') as a, batchq.enqueue('k', queue => 'v', priority => 3) as b
    \gset
select batchq.set_job(:a, 7) \g /dev/null
select is(t.priority(:a), 7, 'the view shows it');
select is((batchq.get_job(:a)).priority, 7, 'so does get_job');
select is(string_agg(l.priority::text, ' ' order by l.id), '7 3', 'and list_jobs')
    from batchq.list_jobs(queue => 'v') l;
select is(string_agg(p.job_id || ':' || p.priority, ' '), format('%s:7 %s:3', :a, :b),
    'peek_lease has it first') from batchq.peek_lease('v') p;
select is((select string_agg(g.gate, ' ') from batchq.explain_job(:a) g where g.gate = 'behind'),
    null, 'explain_job: nothing is before it');
select is(g.says, '1 job of queue v goes first, of a higher priority',
    'and it is before the other') from batchq.explain_job(:b) g where g.gate = 'behind';
select is(batchq.cancel(:a), 'cancelled', 'it can be cancelled where it is');
select is(t.priority(:a), 0, 'one that is over shows what it was enqueued with');

-- it stays through what follows
select batchq.enqueue('k', queue => 's', max_attempts => 2, backoff => 'fixed', backoff_base => '1 s')
    as a \gset
select batchq.set_job(:a, 9) \g /dev/null
select t.take('s') \g /dev/null
select batchq.release(:a, t.lease_of(:a)) \g /dev/null
select is(t.places(:a), 'ready 9', 'release keeps it');
select t.take('s') \g /dev/null
select batchq.snooze(:a, t.lease_of(:a), '1 s') \g /dev/null
select is(t.places(:a), 'scheduled 9', 'snooze');
select t.pass('1 s'), t.take('s') \g /dev/null
select batchq.fail(:a, t.lease_of(:a), 'e') \g /dev/null
select is(t.places(:a), 'scheduled 9', 'a retry');
select t.pass('1 s'), t.take('s') \g /dev/null
select batchq.fail(:a, t.lease_of(:a), 'e') \g /dev/null
select is(t.places(:a) || ' ' || t.priority(:a), 'dead 9 9', 'a dead letter');
select batchq.redrive(array[:a]) \g /dev/null
select is(t.places(:a), 'ready 9', 'and redrive');
select batchq.enqueue('k', queue => 's', dedupe_key => 'x') as a \gset
select batchq.set_job(:a, 4) \g /dev/null
select batchq.enqueue('k', '{"n": 2}', queue => 's', dedupe_key => 'x', on_duplicate => 'replace',
    delay => '1 h') \g /dev/null
select is(t.places(:a), 'scheduled 4', 'a duplicate that replaces keeps it');

-- the time of scheduled jobs
select batchq.enqueue('k', queue => 't', delay => '1 h', priority => 2) as a,
    batchq.enqueue('k', queue => 't', delay => '1 h') as b \gset
select is(batchq.set_job(:a, run_at => t.now() + interval '2 h'), 'scheduled', 'a job is put off');
select is(t.wait(:a), '2 h', 'to its new time');
select is(batchq.set_job(:a, priority => 6), 'scheduled', 'its priority is another matter');
select is(t.places(:a) || ' ' || t.wait(:a), 'scheduled 6 02:00:00', 'which leaves the time');
select is(batchq.set_job(:b, run_at => t.now()), 'scheduled', 'a job is to run now');
select is(t.take('t', 9), :'b', 'and does');
select is(batchq.set_job(:a, 1, '2001-01-01'), 'scheduled', 'a time that has passed is now');
select is(t.take('t', 9) || ' ' || t.places(:a), :a || ' leased 1', 'both at once');
select batchq.enqueue('k', queue => 'soon', delay => '1 h') as a \gset
select batchq.set_job(:a, run_at => t.now() + interval '1 s') \g /dev/null
select is(t.count('soon'), 0::bigint, 'sooner');
select t.pass('1 s') \g /dev/null
select is(t.take('soon'), :'a', 'is when it comes');

-- the time of ready jobs
select batchq.enqueue('k', queue => 'r', dedupe_key => 'r') as a, batchq.enqueue('k', queue => 'r')
    as b \gset
select is(batchq.set_job(:a, run_at => t.now()), 'ready', 'a ready job runs now anyway');
select is(r.pos, :a::bigint, 'in its place') from batchq.ready r where r.job_id = :a;
select is(batchq.set_job(:a, 3, t.now() + interval '1 h'), 'scheduled', 'or is put off');
select is(t.places(:a) || ' ' || t.wait(:a), 'scheduled 3 01:00:00', 'with its new priority');
select is(batchq.enqueue('k', queue => 'r', dedupe_key => 'r'), :a::bigint, 'F019 it keeps its key');
select is(t.take('r', 9), :'b', 'it does not run now');
select t.pass('1 h') \g /dev/null
select is(t.take('r', 9), :'a', 'but then');
select is(batchq.complete(:a, t.lease_of(:a)), 'completed', 'to its end');
select is_empty($$ select from batchq.dedupe d where d.queue = 'r' $$, 'F019 where the key is free');

-- groups: order by priority
select batchq.set_queue('g', group_limit => 2) \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => 'x') as a,
    batchq.enqueue('k', queue => 'g', group_key => 'x') as b,
    batchq.enqueue('k', queue => 'g', group_key => 'x') as c,
    batchq.enqueue('k', queue => 'g', group_key => 'x') as d,
    batchq.enqueue('k', queue => 'g', group_key => 'x') as e \gset
select is(t.take('g', 1), :'a', 'of a group two are ready at a time');
select is(t.in_state('g', 'ready') || ' of ' || t.in_state('g', 'blocked'),
    format('%s of %s %s %s', :b, :c, :d, :e), 'others are blocked');
select is(batchq.set_job(:e, 5), 'blocked', 'a blocked job takes another priority');
select batchq.complete(:a, t.lease_of(:a)) \g /dev/null
select is(t.take('g', 9), format('%s %s', :e, :b), 'and goes before others of its group, and of its queue');
select is(t.places(:e), 'leased 5', 'in the lane of its priority');
select is(batchq.set_job(:c, -5), 'blocked', 'or behind them');
select batchq.complete_many(array[:b, :e]::bigint[], array[t.lease_of(:b), t.lease_of(:e)]) \g /dev/null
select is(t.take('g', 1), :'d', 'one after the other');
select is(t.seats('g'), 'x:2', 'seats are what they were');
select is(t.in_state('g', 'ready'), :'c', 'the last is ready now');
select is(batchq.set_job(:c, run_at => t.now() + interval '1 h'), 'scheduled', 'and is put off');
select batchq._admit('g', 0, 9) \g /dev/null
select is(t.seats('g'), 'x:1', 'F019 which gives up its seat');
select t.pass('1 h') \g /dev/null
select is(t.take('g', 9) || ' ' || t.seats('g'), :c || ' x:2', 'until its time');
select batchq.enqueue('k', queue => 'g', group_key => 'x') as f \gset
select is(t.code(format('select batchq.set_job(%s, run_at => now())', :f)), 'JQ005',
    'a blocked job is due already: it takes no time');
select is(t.message(format('select batchq.set_job(%s, 3, now())', :f)),
    format('job %s waits for its turn in its group', :f), 'and says why');
select is(t.places(:f), 'blocked 0', 'which changes nothing');

-- groups: one after the other
select batchq.set_queue('one', group_limit => 1, backoff => 'fixed', backoff_base => '1 h') \g /dev/null
select batchq.enqueue('k', queue => 'one', group_key => 'x') as a,
    batchq.enqueue('k', queue => 'one', group_key => 'x') as b,
    batchq.enqueue('k', queue => 'one', group_key => 'x') as c \gset
select t.take('one') \g /dev/null
select batchq.set_job(:c, 9) \g /dev/null
select batchq.fail(:a, t.lease_of(:a), 'e') \g /dev/null
select is(t.count('one'), 0::bigint, 'a retry keeps its seat');
select is(batchq.set_job(:a, run_at => t.now()), 'scheduled', 'one that is to run now');
select is(t.take('one', 9) || ' ' || t.seats('one'), :a || ' x:1', 'keeps it, too');
select batchq.complete(:a, t.lease_of(:a)) \g /dev/null
select is(t.take('one', 9), :'b', 'a priority does not change the order of such a group');
select batchq.fail(:b, t.lease_of(:b), 'e') \g /dev/null
select is(batchq.set_job(:b, run_at => t.now() + interval '2 h'), 'scheduled', 'one that is put off');
select is(t.take('one', 9) || ' ' || t.seats('one'), :c || ' x:1', 'F019 lets the group go on');

-- a group with a rate
select batchq.set_queue('gr', group_rate => 2, group_period => '1 min') \g /dev/null
select batchq.enqueue('k', queue => 'gr', group_key => 'x') as a from generate_series(1, 3) \g /dev/null
select batchq._admit('gr', 0, 9) \g /dev/null
select batchq.set_job(j.id, run_at => t.now() + interval '1 h') from batchq.jobs j
    where j.queue = 'gr' and j.state = 'ready' \g /dev/null
select is(t.count('gr'), 1::bigint, 'F019 permits to start that were not used go back');
update batchq.upkeep set next_at = '-infinity' \g /dev/null
select is((select m.done from batchq.maintain() m where m.task = 'groups'), 0::bigint,
    'F097 and upkeep finds nothing wrong');

-- refused
select throws_ok(format('select batchq.set_job(%s)', v), 'JQ001', null, format('%s is refused', v))
    from unnest(array['1', '1, 32768', '1, -32769', '1, null, ''infinity''', '1, null, ''-infinity''',
        '1, null, ''10000-01-01''']) v;
select throws_ok(format('select batchq.set_job(%s, 3)', v), 'JQ003', null, format('no job %s', v))
    from unnest(array['999999', '0', 'null']) v;
select throws_ok(format('select batchq.set_job(%s, 3)', t.job_in(v, 'x' || v)), 'JQ005', null,
    format('one that is %s is not pending', v))
    from unnest(array['leased', 'completed', 'failed', 'cancelled']) v;

-- written down, roles
select batchq.enqueue('k') as a \gset
select batchq.set_job(:a, 3, '2030-01-01 00:00:00+00') \g /dev/null
select is(concat_ws(' ', a.action, a.target, a.details ->> 'priority',
        (a.details ->> 'run_at')::timestamptz at time zone 'UTC'),
    'set_job job ' || :a || ' 3 2030-01-01 00:00:00', 'it is written down') from batchq.list_audit(1) a;
set local role batchq_operator;
select batchq.set_job(:a, 4) as state \gset
reset role;
select is(:'state'::text, 'scheduled', 'F074 the role batchq_operator may call it');
select throws_ok(format('set local role %I; select batchq.set_job(1, 1)', r), '42501', null,
    format('F074 %s may not', r))
    from unnest(array['batchq_producer', 'batchq_worker', 'batchq_monitor']) r;

select * from finish();
rollback;
