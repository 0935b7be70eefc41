begin;
select plan(27);
\ir ../clock.psql

create function t.break(queue text, kind text default 'bad') returns void language sql as $$
    select batchq.enqueue(kind, queue => queue, priority => 100, max_attempts => 1);
    select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease($1) l
$$;
create function t.kinds(queue text, n integer default 1000) returns text language sql as $$
    select string_agg(k.kind || k.n, ' ' order by k.kind)
    from (select l.kind, count(*) as n from batchq.lease($1, $2) l group by l.kind) k
$$;
create function t.held(queue text) returns text language sql as $$
    select string_agg(h.wait || ':' || h.n, ' ' order by h.wait)
    from (select s.run_at - t.now() as wait, count(*) as n
          from batchq.scheduled s where s.queue = $1 group by 1) h
$$;

-- at the head of a lane
select batchq.set_queue('q', breaker_share => 1, breaker_min => 1, breaker_pause => '5 s')
    \g /dev/null
select batchq.enqueue('bad', queue => 'q') as first \gset
select batchq.enqueue('bad', queue => 'q') from generate_series(1, 39) \g /dev/null
select batchq.enqueue('good', queue => 'q') from generate_series(1, 5) \g /dev/null
select t.break('q') \g /dev/null
select is(t.kinds('q', 2), 'good2', 'jobs of other kinds go on, past those that are held back');
select is(t.held('q'), '00:00:05:20 00:00:50:20', 'ten of each lot wait for the probe, more for ten');
select is(t.job(:first), 'scheduled:0', 'their attempts are not counted');
select is((select string_agg(s.job_id::text, ' ') from batchq.scheduled s where s.queue = 'q'
           and s.job_id = :first and s.attempt = 0 and s.run_at = t.now() + interval '5 s'),
    :'first', 'the first is among those that wait for the probe');
select is((select b.held from batchq.list_breakers('q') b), 40, 'all are counted as held');
select is(t.kinds('q'), 'good3', 'the rest of the lane follows');
select is(batchq.next_due('{q}'), '5 s', 'workers sleep until the probe is due');

-- the probe
select t.pass('5 s') \g /dev/null
select batchq.enqueue('good', queue => 'q') from generate_series(1, 2) \g /dev/null
select is(t.kinds('q'), 'bad1 good2', 'one is let through, with the others');
select is(t.job(:first), 'leased:1', 'the first');
select is((select b.probe_job_id from batchq.list_breakers('q') b), :first::bigint, 'it is told');
select batchq.enqueue('bad', queue => 'q') \g /dev/null
select is(t.kinds('q'), null, 'only one');
select is(t.held('q'), '00:00:05:11 00:00:45:29', 'the others wait on');
select batchq.complete(:first, t.lease_of(:first)) \g /dev/null
select is((select count(*) from batchq.breaker b where b.queue = 'q'), 0::bigint, 'it is closed');
select is(batchq.next_due('{q}'), '0', 'the others are due');
select is(t.kinds('q'), 'bad40', 'and run');
select is((select max(l.attempt) from batchq.leased l where l.queue = 'q'), 1::smallint,
    'with their first attempt');

-- lanes, caps
select batchq.set_queue('cap', breaker_share => 1, breaker_min => 1, breaker_pause => '5 s',
                        max_running => 2) \g /dev/null
select batchq.enqueue(k, queue => 'cap', priority => p)
from unnest(array['bad', 'good']) k, generate_series(1, 3) p \g /dev/null
select t.break('cap') \g /dev/null
select is(t.kinds('cap'), 'good2', 'what is held back takes no permit');
select t.pass('5 s') \g /dev/null
select is(t.kinds('cap'), null, 'a probe needs one, too');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'cap' \g /dev/null
select is(t.kinds('cap', 1), 'bad1', 'it is not put off for want of one');
select is(t.kinds('cap'), 'good1', 'and is one of all lanes');
select is(t.free('cap'), 0::bigint, 'permits are right');

-- groups
select batchq.set_queue('g', breaker_share => 1, breaker_min => 1, breaker_pause => '5 s',
                        group_limit => 1) \g /dev/null
select batchq.enqueue(k, queue => 'g', group_key => 'x', dedupe_key => k)
from unnest(array['bad', 'good']) k \g /dev/null
select t.break('g') \g /dev/null
select is(t.kinds('g'), null, 'a group whose jobs run in order waits');
select is(t.seats('g'), 'x:1', 'its seat is kept');
select is((select s.ties from batchq.scheduled s where s.queue = 'g'), 13::smallint,
    'and the dedupe key');
select t.pass('5 s') \g /dev/null
select is(t.kinds('g'), 'bad1', 'the probe is its first job');

-- many
select batchq.set_queue('many', breaker_share => 1, breaker_min => 1) \g /dev/null
select t.break('many') \g /dev/null
select batchq.enqueue_many((select jsonb_agg('{"kind": "bad", "queue": "many"}'::jsonb)
    from generate_series(1, 5000))) \g /dev/null
select batchq.enqueue('good', queue => 'many') \g /dev/null
select is(t.kinds('many', 1), null, 'more than one lease moves: none of them is let by');
select is(t.kinds('many', 1), 'good1', '5,000 of them are passed with the second lease');

select * from finish();
rollback;
