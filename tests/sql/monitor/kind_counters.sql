begin;
select plan(6);
\ir ../clock.psql

insert into batchq.tally_total (queue, kind, enqueued, completed, cancelled, failed, reaped, retried,
                                dead_letters)
values ('q', 'b', 1, 2, 3, 4, 5, 6, 7), ('q', 'a', 8, 0, 0, 0, 0, 0, 0), ('p', 'a', 9, 0, 0, 0, 0, 0, 0);
select is(string_agg(format('%s/%s:%s', k.queue, k.kind, k.enqueued), ' '), '/:0 p/a:9 q/a:8 q/b:1',
    'B-35 a row a queue and kind, in their order; one for all others') from batchq.kind_counters() k;
select is(row(k.completed, k.failed, k.retried, k.reaped, k.dead_letters, k.cancelled)::text,
    '(2,4,6,5,7,3)', 'each number in its place') from batchq.kind_counters('q') k where k.kind = 'b';
select is((select count(*) from batchq.kind_counters('q')), 2::bigint, 'of one queue');
select is((select count(*) from batchq.kind_counters('')), 1::bigint, 'of those beyond a thousand');
select is((select count(*) from batchq.kind_counters('Q')), 0::bigint, 'a queue without a row has none');
set local role batchq_monitor;
select count(*) as seen from batchq.kind_counters() \gset
reset role;
select is(:seen, 4, 'D-7 batchq_monitor may call it');

select * from finish();
rollback;
