begin;
select plan(8);
\ir ../clock.psql

select t.set_clock('2026-01-01 10:05:20+00') \g /dev/null
update batchq.tally set tallied_at = t.now() - interval '10 s';
insert into batchq.rollup (at, wait_s, run_s, enqueued, completed, cancelled, failed, reaped,
                           retried, dead_letters, waited, span, queue, kind)
values ('2026-01-01 09:05+00', 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 'q', ''),
       ('2026-01-01 10:04+00', 0, 0, 60, 120, 6, 12, 18, 0, 24, 0, 1, 'q', ''),
       ('2026-01-01 10:05+00', 0, 0, 999, 999, 0, 0, 0, 0, 0, 0, 1, 'q', ''),
       ('2026-01-01 10:04+00', 0, 0, 777, 0, 0, 0, 0, 0, 0, 0, 1, 'q', 'a'),
       ('2026-01-01 10:00+00', 0, 0, 777, 0, 0, 0, 0, 0, 0, 0, 60, 'q', '');
select is((select string_agg(q.queue, ',') from batchq.queue_trends('{r,q,q}') q), 'q,r', 'each queue once, by name');
select is((select q.enqueued[1] || ' ' || q.enqueued[60] from batchq.queue_trends('{q}') q), '7 60',
    'the first and the last whole minute of an hour');
select is((select q.ended[60] || ' ' || q.failed[60] from batchq.queue_trends('{q}') q), '150 30',
    'over in any way; failed or ran out');
select is((select q.since from batchq.queue_trends('{q}') q), '2026-01-01 09:05+00', 'since when');
select is((select array_agg(distinct n)::text from batchq.queue_trends('{nobody}') q, unnest(q.ended) n), '{0}',
    'zeros for a queue that is not known');
select is(t.code(format('select batchq.queue_trends(%L)', q)), 'JQ001', 'bad names are refused')
    from unnest(array['{""}', null]) q;
set local role batchq_monitor;
select count(*) as seen from batchq.queue_trends('{q}') \gset
reset role;
select is(:seen, 1, 'batchq_monitor may call it');

select * from finish();
rollback;
