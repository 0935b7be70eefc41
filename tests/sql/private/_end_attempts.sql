begin;
select plan(8);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'q' || i % 2, max_attempts => m, backoff => 'fixed',
    backoff_base => '7 s', dedupe_key => 'K' || i)
    from unnest(array[1, 2, 2, 2, 2]) with ordinality x(m, i) \g /dev/null
select batchq.lease_from('{q0,q1}', 10, 'w') \g /dev/null
create temporary table m as select l.job_id, l.lease_id, l.ctid as lease,
    row_number() over (order by l.job_id) as n from batchq.leased l;
update batchq.leased l set cancel_requested_at = t.now(), cancel_reason = 'why' from m
    where m.job_id = l.job_id and n = 3;
update m set lease = l.ctid from batchq.leased l where l.job_id = m.job_id;
create temporary table e as
select * from batchq._end_attempts((select array_agg(lease order by n) from m),
    array['e1', 'e2', 'e3', 'e4', null], array[false, null, true, true, false],
    array[null, '3 s', null, null, '-1 s']::interval[], false);
select is(string_agg(m.n || e.state || e.queue, ' ' order by m.n),
    '1failedq1 2scheduledq0 3cancelledq1 4failedq0 5scheduledq1',
    'each job goes where it must: none left, left, asked to stop, permanent') from e
    join m using (job_id);
select is(string_agg(t.job(job_id) || coalesce(t.wait(job_id)::text, ''), ' ' order by n),
    'failed:1 scheduled:100:00:03 cancelled:1 failed:1 scheduled:100:00:00',
    'and is in that one place') from m;
select is((select string_agg(r.attempt || r.error || r.worker || r.expired, ' ' order by r.job_id)
    from batchq.error r), '1e1wfalse 1e2wfalse 1e3wfalse 1e4wfalse 1no error text was givenwfalse',
    'A-16 every error is kept');
select is((select string_agg(d.dedupe_key, ' ' order by d.dedupe_key) from batchq.dedupe d),
    'K2 K5', 'F025 those that are over give their keys back');
select is((select o.reason || (o.lease_id = m.lease_id) from batchq.outcome o
    join m using (job_id)), 'whytrue', 'a cancelled one keeps the reason and the lease');
select is((select count(*) from batchq.leased), 0::bigint, 'F010 no lease is left');
select batchq.enqueue('k', queue => 'x', backoff => 'fixed', backoff_base => '7 s') as a \gset
select batchq.lease('x') \g /dev/null
select batchq._end_attempts((select array_agg(l.ctid) from batchq.leased l), '{expired}', null,
    null, true) \g /dev/null
select is(t.wait(:a) || ' ' || (select expired from batchq.error where job_id = :a),
    '00:00:07 true', 'C-15 without permanents and waits: the backoff, and an attempt that expired');
select is_empty($$ select * from batchq._end_attempts('{}', '{}', null, null, false) $$,
    'none is no error');

select * from finish();
rollback;
