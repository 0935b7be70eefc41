begin;
select plan(14);
\ir ../clock.psql

select is_empty('select * from batchq.list_breakers()', 'there is none at first');
select batchq.set_queue(q, breaker_share => 0.5, breaker_min => 2, breaker_pause => '5 s')
from unnest(array['a', 'b']) q \g /dev/null
select batchq.enqueue(k, queue => q)
from (select q, k from unnest(array['a', 'b']) q, unnest(array['x', 'y']) k,
                       generate_series(1, 4) order by q, k) j \g /dev/null
select batchq.fail_many(array_agg(l.job_id), array_agg(l.lease_id),
                        array_agg(repeat('e', 300)), retry_ins => array_agg(interval '1 h'))
from (select l.* from batchq.lease('a', 2) l union all select l.* from batchq.lease('b', 6) l) l
    \g /dev/null
select is((select string_agg(b.queue || b.kind || b.failed || '/' || b.ended, ' ')
           from batchq.list_breakers() b), 'ax2/2 bx4/4 by2/2', 'by queue and kind, with the reason');
select is((select string_agg(b.queue, '') from batchq.list_breakers('b') b), 'bb', 'of one queue');
select is_empty($$ select * from batchq.list_breakers('nobody') $$, 'none of a queue without');
select is((select b.last_error from batchq.list_breakers('a') b), repeat('e', 200),
    'last_error is cut short');
select is((select b.opened_at from batchq.list_breakers('a') b), t.now(), 'opened_at');
select is((select b.probe_at from batchq.list_breakers('a') b), t.now() + interval '5 s', 'probe_at');
select is((select b.held from batchq.list_breakers('a') b), 0, 'jobs are held back by a lease');
select t.take('a', 4) \g /dev/null
select is((select b.held from batchq.list_breakers('a') b), 2, 'then they are counted');
select t.pass('5 s') \g /dev/null
select t.take('a') as probe \gset
select is((select b.probe_job_id || ' ' || b.held from batchq.list_breakers('a') b),
    :'probe' || ' 1', 'probe_job_id is the job that runs as the probe');
select t.pass('61 s'), batchq.reap() \g /dev/null
select is((select coalesce(b.probe_job_id, 0) || ' ' || b.probes from batchq.list_breakers('a') b
           where b.kind = 'x'), '0 1', 'no longer when it is over');

set local role batchq_monitor;
select count(*) as seen from batchq.list_breakers() \gset
reset role;
select is(:seen, 4, 'batchq_monitor may call it');
set local role batchq_producer;
select count(*) as seen from batchq.list_breakers() \gset
reset role;
select is(:seen, 4, 'and every other role');
select is(t.code('set local role batchq_monitor; table batchq.breaker'), '42501',
    'D-7 the table is not open to them');

select * from finish();
rollback;
