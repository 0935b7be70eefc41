begin;
select plan(15);
\ir ../clock.psql

select t.set_clock('2026-01-01 10:05:20+00') \g /dev/null
update batchq.tally set tallied_at = t.now() - interval '10 s';
insert into batchq.queue (queue) values ('q'), ('p');
insert into batchq.tally_total (queue, kind) values ('q', 'a'), ('p', 'a');
create function t.happened(queue text, kind text, at text, n integer, span integer default 1, bucket integer default 3)
returns void language sql as $$
    insert into batchq.rollup (at, wait_s, run_s, enqueued, completed, cancelled, failed, reaped, retried,
                               dead_letters, waited, span, queue, kind, waits, runs)
    select ('2026-01-01 ' || $3 || '+00')::timestamptz, 1, 1, 1, $4, 2, 3, 4, 5, 6, $4, $5, $1, $2,
           array(select case when i >= $6 then $4 else 0 end from generate_series(1, 28) i),
           array(select case when i > $6 then $4 else 0 end from generate_series(1, 28) i)
$$;
select t.happened('q', 'a', '10:02', 10), t.happened('q', 'a', '10:04', 30, 1, 5), t.happened('p', 'a', '10:04', 5),
    t.happened('q', '', '10:04', 40), t.happened('', '', '10:04', 70), t.happened('', '', '10:05', 99),
    t.happened('', '', '10:00', 500, 60), t.happened('', '', '08:00', 200, 60) \g /dev/null
select is(count(*), 60::bigint, 'an hour of minutes') from batchq.throughput();
select is(row(min(p.at), max(p.at))::text, row('2026-01-01 09:05+00'::timestamptz, '2026-01-01 10:04+00'::timestamptz)::text,
    'up to the last whole one that was counted') from batchq.throughput() p;
select is(string_agg(p.completed::text, ' ' order by p.at), '0 0 70', 'of all; what nothing happened in is there')
    from batchq.throughput(since => '3 min') p;
select is(string_agg(p.completed::text, ' ' order by p.at), '0 0 40', 'of a queue') from batchq.throughput('q', since => '3 min') p;
select is(string_agg(p.completed::text, ' ' order by p.at), '10 0 30', 'of a pair')
    from batchq.throughput('q', 'a', since => '3 min') p;
select is(string_agg(p.completed::text, ' ' order by p.at), '10 0 35', 'of a kind in all queues')
    from batchq.throughput(kind => 'a', since => '3 min') p;
select is(row(p.enqueued, p.cancelled, p.failed, p.reaped, p.retried, p.dead_letters)::text, '(1,2,3,4,5,6)',
    'each number in its place') from batchq.throughput('q', since => '1 min') p;
select is(row(p.wait_p50, p.wait_p99, p.run_p50)::text, '(00:00:00.002828,00:00:00.004,00:00:00.005657)',
    'percentiles from histograms') from batchq.throughput('q', since => '1 min') p;
select is(p.wait_p50, null, 'and none where there are none') from batchq.throughput('p', 'a', since => '2 min') p limit 1;
select is(string_agg(to_char(p.at at time zone 'UTC', 'HH24:MI ') || p.completed, ', ' order by p.at), '10:00 40',
    'steps begin at their multiples, minutes add up') from batchq.throughput('q', 'a', since => '5 min', step => '5 min') p;
select is(string_agg(p.completed::text, ' ' order by p.at), '200 0 500', 'steps of hours come from hours')
    from batchq.throughput(since => '2 hours', step => '1 hour') p;
select is((select count(*) from batchq.throughput(since => '7 days')), 10080::bigint, 'the most points');
select is(t.code('select batchq.throughput(''none'')'), 'JQ002', 'a queue that never was');
select is(string_agg(t.code(format('select batchq.throughput(since => %L, step => %L)', a, b)), ' '), 'JQ001 JQ001 JQ001 JQ001 JQ001',
    'since and step have bounds')
    from (values ('59 s', '1 min'), ('169 h', '1 min'), ('1 h', '59 s'), ('1 h', '90 s'), ('7 d', '25 h')) x(a, b);
set local role batchq_monitor;
select count(*) as seen from batchq.throughput() \gset
reset role;
select is(:seen, 60, 'D-7 batchq_monitor may call it');

select * from finish();
rollback;
