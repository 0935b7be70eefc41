begin;
select plan(9);
\ir ../clock.psql

select t.set_clock('2026-01-01 10:05:20+00') \g /dev/null
update batchq.tally set tallied_at = t.now() - interval '10 s';
insert into batchq.tally_total (queue, kind) values ('q', 'a'), ('idle', 'a');
insert into batchq.rollup (at, wait_s, run_s, enqueued, completed, cancelled, failed, reaped, retried, dead_letters,
                           waited, span, queue, kind)
values ('2026-01-01 10:03+00', 0, 0, 600, 0, 0, 0, 0, 0, 0, 0, 1, 'q', ''),
       ('2026-01-01 10:04+00', 0, 0, 60, 120, 6, 12, 18, 0, 24, 0, 1, 'q', ''),
       ('2026-01-01 10:05+00', 0, 0, 999, 999, 0, 0, 0, 0, 0, 0, 1, 'q', ''),
       ('2026-01-01 10:04+00', 0, 0, 777, 0, 0, 0, 0, 0, 0, 0, 1, 'q', 'a'),
       ('2026-01-01 10:00+00', 0, 0, 777, 0, 0, 0, 0, 0, 0, 0, 60, 'q', '');
select is(string_agg(r.queue || ' ' || r.enqueued, ', '), 'idle 0, q 1', 'jobs a second of the last whole minute')
    from batchq.queue_rates() r;
select is(row(r.completed, r.failed, r.ended)::text, '(2,0.5,2.5)', 'completed; failed or ran out; over in any way')
    from batchq.queue_rates() r where r.queue = 'q';
select is(r.until - r.since, '1 minute'::interval, 'and which minute that was') from batchq.queue_rates() r limit 1;
select is(r.enqueued, 5.5::double precision, 'over two minutes') from batchq.queue_rates('2 min') r where r.queue = 'q';
select is(r.enqueued, 5.5::double precision, 'a part of a minute counts as one')
    from batchq.queue_rates('61 s') r where r.queue = 'q';
select t.pass('5 minutes') \g /dev/null
select is((select count(*) from batchq.queue_rates()), 0::bigint, 'not known where upkeep has not counted');
select is(t.code(format('select batchq.queue_rates(%L)', o)), 'JQ001', format('over %s is refused', o))
    from unnest(array['59 s', '61 min']) o;
set local role batchq_monitor;
select count(*) as seen from batchq.queue_rates() \gset
reset role;
select is(:seen, 0, 'D-7 batchq_monitor may call it');

select * from finish();
rollback;
