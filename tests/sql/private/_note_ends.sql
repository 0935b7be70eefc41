begin;
select plan(27);
\ir ../clock.psql

create function t.fail(queue text, n integer, error text default 'e') returns void
language sql as $$
    select batchq.fail(l.job_id, l.lease_id, error, retry_in => '1 h') from batchq.lease($1, $2) l
$$;
create function t.complete(queue text, n integer) returns void language sql as $$
    select batchq.complete(l.job_id, l.lease_id) from batchq.lease($1, $2) l
$$;
create function t.open(queue text) returns text language sql as $$
    select string_agg(b.kind, ' ' order by b.kind) from batchq.list_breakers($1) b
$$;
create function t.ends(queue text) returns text language sql as $$
    select coalesce(sum(e.failed) || '/' || sum(e.ended), 'none')
    from batchq.attempt_end e where e.queue = $1
$$;
create function t.fill(kind text, queue text, n integer) returns void language sql as $$
    select batchq.enqueue(kind, queue => queue) from generate_series(1, n)
$$;

-- share, least number, window
select batchq.set_queue('q', breaker_share => 0.5, breaker_min => 4, breaker_window => '10 s',
                        breaker_pause => '5 s') \g /dev/null
select t.fill('k', 'q', 60) \g /dev/null
select t.fail('q', 3) \g /dev/null
select is(t.ends('q'), '3/3', 'ends of attempts are noted');
select is(t.open('q'), null, 'too few for a breaker');
select t.pass('10 s') \g /dev/null
select t.fail('q', 3) \g /dev/null
select is(t.open('q'), null, 'what is out of the window does not count');
select t.complete('q', 4) \g /dev/null
select is(t.open('q'), null, 'enough, and too small a share');
select t.fail('q', 1) \g /dev/null
select is(t.open('q'), 'k', 'half of them failed: it opens');
select is((select b.failed || '/' || b.ended from batchq.list_breakers('q') b), '4/8',
    'and says why');
select is(t.take('q', 5), null, 'jobs of the kind are held back');

-- the probe
select t.pass('4.9 s') \g /dev/null
select is(t.take('q', 5), null, 'until the pause is over');
select t.pass('0.1 s') \g /dev/null
select t.take('q', 5) as probe \gset
select is(t.job(:probe), 'leased:1', 'then one is let through');
select batchq.fail(:probe, t.lease_of(:probe), 'no route', retry_in => '1 h') \g /dev/null
select is((select b.probes || b.last_error from batchq.list_breakers('q') b), '1no route',
    'it failed: the breaker stays open');
select t.pass('4.9 s') \g /dev/null
select is(t.take('q', 5), null, 'for another pause');
select t.pass('0.1 s') \g /dev/null
select t.take('q', 5) as probe \gset
select batchq.release(:probe, t.lease_of(:probe)) \g /dev/null
select is((select b.probes from batchq.list_breakers('q') b), 1, 'one that is handed back says nothing');
select t.take('q', 5) as probe \gset
select is(t.job(:probe), 'leased:1', 'another is let through at once');
select batchq.snooze(:probe, t.lease_of(:probe), '1 h') \g /dev/null
select t.take('q', 5) as probe \gset
select batchq.cancel(:probe) \g /dev/null
select batchq.fail(:probe, t.lease_of(:probe), 'asked to stop') \g /dev/null
select is((select b.probes from batchq.list_breakers('q') b), 1, 'nor does one that was cancelled');
select t.take('q', 5) as probe \gset
select t.pass('61 s') \g /dev/null
select is(t.take('q', 5), null, 'as long as the probe is leased there is no other');
select batchq.reap() \g /dev/null
select is((select b.probes from batchq.list_breakers('q') b), 2, 'a lease that ran out is a failure');
select t.pass('5 s') \g /dev/null
select t.take('q', 5) as probe \gset
select batchq.complete_many(array[:probe], array[t.lease_of(:probe)]) \g /dev/null
select is(t.open('q'), null, 'it completes: the breaker closes');
select is(t.count('q'), 60::bigint - (select count(*) from batchq.jobs j where j.queue = 'q'
        and (j.status in ('completed', 'cancelled') or j.run_at > t.now())),
    'and all jobs run that do not wait for a retry');
select t.fill('k', 'q', 9) \g /dev/null
select t.fail('q', 3) \g /dev/null
select is(t.open('q'), null, 'it begins anew: what failed before does not count');

-- several kinds and queues in one call
select batchq.set_queue('two', breaker_share => 1, breaker_min => 2) \g /dev/null
select t.fill('a', 'two', 2), t.fill('b', 'two', 3), t.fill('a', 'none', 5) \g /dev/null
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('two', 9) l
where l.kind = 'b' limit 1 \g /dev/null
select batchq.fail_many(array_agg(l.job_id), array_agg(l.lease_id), array_agg('e'::text))
from (select l.* from batchq.leased l where l.queue = 'two'
      union all select l.* from batchq.leased l where l.queue = 'none') l \g /dev/null
select is(t.open('two'), 'a', 'each kind has its own');
select is((select count(*) from batchq.attempt_end e where e.queue = 'two'), 3::bigint,
    'a call leaves one row for a kind');
select t.fail('none', 5) \g /dev/null
select is(t.ends('none') || coalesce(t.open('none'), ''), 'none', 'a queue without one notes nothing');
select is((select count(*) from batchq.leased l where l.ties <> 0 and l.queue = 'none'), 0::bigint,
    'its jobs have no ties');

-- settings that change
select batchq.set_queue('two', clear => '{breaker_share}') \g /dev/null
select is(t.open('two'), null, 'without breaker_share there is none');
select t.fill('a', 'two', 3) \g /dev/null
select is(t.count('two'), 3::bigint, 'jobs run again');
select batchq.set_queue('two', breaker_share => 1) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.leased l where l.queue = 'two' \g /dev/null
select is(t.ends('two'), '4/5', 'jobs that started without one are not noted');
select is((select q.limited from batchq.queue q where q.queue = 'two'), true,
    'a queue with a breaker is a limited one');

select * from finish();
rollback;
