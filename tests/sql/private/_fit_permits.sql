begin;
select plan(14);
\ir ../clock.psql

select batchq.set_queue('q', max_running => 10, rate => 20, rate_period => '10 s') \g /dev/null
select batchq.enqueue('k', queue => 'q') from generate_series(1, 9) \g /dev/null
select t.count('q', 4) \g /dev/null
select is(batchq._fit_permits('q'), 0::bigint, 'permits that are all there are left alone');
delete from batchq.permit p where p.queue = 'q' and p.line = 'cap';
select is(batchq._fit_permits('q') || ' ' || t.free('q'), '6 6',
    'lost ones are made again, without those in use');
select batchq._give_permits('q', 'cap', 3, null) \g /dev/null
select is(batchq._fit_permits('q') || ' ' || t.free('q'), '3 6', 'surplus ones are taken away');
delete from batchq.permit p where p.queue = 'q' and p.line = 'rate';
select is(batchq._fit_permits('q') || ' ' || t.free('q', 'rate'), '20 20',
    'permits to start are made again, to be taken at once');
select t.count('q', 2) \g /dev/null
select batchq._give_permits('q', 'rate', 5, t.now()) \g /dev/null
select is(batchq._fit_permits('q') || ' ' || t.free('q', 'rate'), '5 18',
    'and taken away, those first that may be taken now');
update batchq.queue set rate = 1 where queue = 'q';
select is(batchq._fit_permits('q') || ' ' || t.free('q', 'rate'), '19 0',
    'those that come back later last');
select t.pass('10 s') \g /dev/null
select is(t.free('q', 'rate'), 1::bigint, 'so that starts that were still count');

-- less than what runs
update batchq.queue set max_running = 2 where queue = 'q';
select batchq._fit_permits('q') \g /dev/null
select is(q.slots_owed || ' ' || t.free('q'), '4 0', 'what runs above the cap is owed')
    from batchq.queue q where q.queue = 'q';
select is(batchq._fit_permits('q'), 0::bigint, 'which is no fault');
select batchq.complete(l.job_id, l.lease_id)
    from (select * from batchq.leased l where l.queue = 'q' limit 3) l \g /dev/null
select is(batchq._fit_permits('q') || ' ' || t.free('q'), '0 0', 'what comes back is paid');
select is(q.slots_owed, 1, 'until none is owed') from batchq.queue q where q.queue = 'q';
update batchq.queue set max_running = 5 where queue = 'q';
select batchq._fit_permits('q') \g /dev/null
select is(q.slots_owed || ' ' || t.free('q'), '0 2', 'raised again it is owed no more')
    from batchq.queue q where q.queue = 'q';
select is(batchq._fit_permits('unknown'), 0::bigint, 'a queue that is unknown has none');
update batchq.queue set max_running = null, rate = null where queue = 'q';
select is(batchq._fit_permits('q'), 0::bigint, 'nor one without limits');

select * from finish();
rollback;
