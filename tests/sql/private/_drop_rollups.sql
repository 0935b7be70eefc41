begin;
select plan(5);
\ir ../clock.psql

insert into batchq.tally_total (queue, kind) values ('q', 'a');
insert into batchq.rollup (at, wait_s, run_s, enqueued, completed, cancelled, failed, reaped, retried, dead_letters,
                           waited, span, queue, kind)
select t.now() - interval '168 hours' + m * interval '1 minute', 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, s.span, k.queue, k.kind
from generate_series(0, 2) m, (values (1), (60)) s(span), (values ('q', 'a'), ('q', ''), ('', '')) k(queue, kind);
select is(batchq._drop_rollups(1000), 0::bigint, 'for 7 days a rollup is kept');
select t.pass('61 s') \g /dev/null
select is(batchq._drop_rollups(5), 5::bigint, 'then it is forgotten, at most n at once');
select is(batchq._drop_rollups(1000), 7::bigint, 'minutes and hours, of pairs, queues and all');
select is(batchq._drop_rollups(1000), 0::bigint, 'once');
select is((select count(*) from batchq.rollup), 6::bigint, 'and the others are there');

select * from finish();
rollback;
