begin;
select plan(12);
\ir ../clock.psql

select is(row(c.enqueued, c.started, c.completed, c.failed, c.retried, c.reaped, c.dead_letters,
    c.cancelled)::text, '(0,0,0,0,0,0,0,0)', 'B-35 nothing has happened yet')
    from batchq.counters() c;
select is(c.since, (select since from batchq.tally), 'since when') from batchq.counters() c;

-- the tally cannot see what its own transaction does: that has not ended
select t.job_in(s, s) from unnest(array['ready', 'completed', 'failed', 'cancelled']) s \g /dev/null
select batchq._tally() from generate_series(1, 3) \g /dev/null
select is((select enqueued from batchq.counters()), 0::bigint, 'what is not committed is not counted');
select is((select started from batchq.counters()), 2::bigint, 'leases are counted at once');
select is(c.tallied_at, t.now(), 'the time of the last step but one') from batchq.counters() c;

-- sums over queues and kinds
insert into batchq.tally_total (queue, kind, enqueued, completed, cancelled, failed, reaped, retried,
                                dead_letters)
select 'q' || g, 'k', g, 10 * g, 100 * g, 1000 * g, 10000 * g, 100000 * g, 1000000 * g
    from generate_series(1, 2) g;
update batchq.tally_total set enqueued = 5 where queue = '';
select is(row(c.enqueued, c.completed, c.cancelled, c.failed, c.reaped, c.retried,
    c.dead_letters)::text, '(8,30,300,3000,30000,300000,3000000)', 'the sums of all')
    from batchq.counters() c;
update batchq.tally set leases_before = 1;
select is((select started from batchq.counters()), 1::bigint, 'leases since then');

-- a step where it could learn nothing
savepoint other;
update batchq.tally set written_by = '3';
select is(batchq._tally(), 0::bigint, 'F076 a row that came from another cluster is no error');
select is((select written_by = xmin from batchq.tally), true, 'and is known again from then on');
select is((select count(*) from batchq.tally_chunk), 0::bigint, 'it begins from the present');
rollback to other;

-- roles
set local role batchq_producer;
select started as seen from batchq.counters() \gset
reset role;
select is(:seen, 1, 'D-7 every role may call it');
select throws_ok('set local role batchq_operator; select batchq._tally()', '42501', null,
    'D-7 nobody steps the tally by himself');

select * from finish();
rollback;
