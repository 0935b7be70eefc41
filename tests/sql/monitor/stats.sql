begin;
select plan(23);
\ir ../clock.psql

select is_empty('select * from batchq.stats()', 'with no queue there is no row');
select batchq.enqueue('k', queue => 'first') \g /dev/null
select results_eq('select queue, ready from batchq.stats()', $$ values ('first', 1::bigint) $$,
    'A-73 F097 a queue that was never leased from shows');
select is(s.ready, 1::bigint, 'A-73 and is found by name') from batchq.stats('first') s;
select batchq.pause('setup') \g /dev/null
select is(row(s.ready, s.scheduled, s.leased, s.dead, s.is_exact, s.oldest_ready_at,
    s.next_run_at)::text, row(0, 0, 0, 0, true, null, null)::text,
    'one that was set up shows with nothing') from batchq.stats('setup') s;

select t.job_in(x, 'all') from unnest(array['completed', 'failed', 'cancelled', 'leased', 'failed',
    'purged', 'ready', 'scheduled', 'ready']) x \g /dev/null
select batchq.enqueue('k', queue => 'all', priority => p)
    from unnest(array[5, -5, 32767]) p \g /dev/null
select is(row(s.queue, s.ready, s.scheduled, s.leased, s.dead)::text, row('all', 5, 1, 1, 2)::text,
    'A-68 depth by state, over all lanes') from batchq.stats('all') s;
select is(s.next_run_at, t.now() + interval '1 h',
    'next_run_at is when the next scheduled job is due') from batchq.stats('all') s;
select is(s.paused_at, null, 'it is not paused') from batchq.stats('all') s;
select is(string_agg(s.queue, ' '), 'all first setup', 'null is all queues, in order of name')
    from batchq.stats() s;

-- since when
select t.now() as start \gset
select t.pass('10 s') \g /dev/null
select is(s.oldest_ready_at, :'start',
    'A-73 oldest_ready_at is since when the longest waiting is ready') from batchq.stats('all') s;
select batchq.enqueue('k', queue => 'past', run_at => t.now() - interval '1 year') \g /dev/null
select is(s.oldest_ready_at, t.now(),
    'A-73 F067 one whose time was long ago waits since it was made') from batchq.stats('past') s;
select batchq.enqueue('k', queue => 'due', delay => '1 s') \g /dev/null
select t.pass('5 s') \g /dev/null
select batchq.maintain() \g /dev/null
select is(s.oldest_ready_at || ' ' || s.ready, t.now() || ' 1',
    'one that became due waits since it was made ready') from batchq.stats('due') s;
select batchq.enqueue('k', queue => 'prio', priority => 9) \g /dev/null
select t.pass('5 s') \g /dev/null
select batchq.enqueue('k', queue => 'prio', priority => 10) \g /dev/null
select is(s.oldest_ready_at, t.now() - interval '5 s', 'the oldest of all lanes counts')
    from batchq.stats('prio') s;

-- follows what happens
select batchq.enqueue('k', queue => 'f', max_attempts => 2, backoff => 'fixed',
    backoff_base => '3 s') \g /dev/null
select l.job_id as a, l.lease_id as l from batchq.lease('f') l \gset
select is(row(s.ready, s.scheduled, s.leased, s.dead)::text, '(0,0,1,0)', 'leased')
    from batchq.stats('f') s;
select batchq.fail(:a, :l, 'e') \g /dev/null
select is(row(s.ready, s.scheduled, s.leased, s.dead)::text, '(0,1,0,0)', 'scheduled')
    from batchq.stats('f') s;
select t.pass('3 s') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('f') l \g /dev/null
select is(row(s.ready, s.scheduled, s.leased, s.dead)::text, '(0,0,0,1)', 'dead')
    from batchq.stats('f') s;
select batchq.redrive(array[:a]) \g /dev/null
select is(row(s.ready, s.scheduled, s.leased, s.dead)::text, '(1,0,0,0)', 'ready')
    from batchq.stats('f') s;
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('f') l \g /dev/null
select is(row(s.ready, s.scheduled, s.leased, s.dead)::text, '(0,0,0,0)', 'completed: nothing')
    from batchq.stats('f') s;
select is((select sum(s.ready + s.scheduled + s.leased + s.dead) from batchq.stats() s),
    (select count(*)::numeric from jobs where status in ('pending', 'running', 'failed')),
    'A-68 the sums are those of the view');

-- limits and refusals
insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, ties, queue)
select -i, t.now() + interval '1 day', t.now(), 0, 0, 0, 0, 'huge'
    from generate_series(1, 100002) i;
select batchq._add_line('huge', 'scheduled', 0::smallint) \g /dev/null
select is(s.scheduled || ' ' || s.is_exact, '100000 false',
    'F093 counts stop at 100,000, and say so') from batchq.stats('huge') s;
select throws_ok(format('select * from batchq.stats(%L)', v), 'JQ002', null,
    format('queue %L is not found', left(v, 10)))
    from unnest(array['nobody', '', 'ALL', repeat('q', 10000)]) v;

select * from finish();
rollback;
