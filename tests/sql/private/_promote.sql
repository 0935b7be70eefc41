begin;
select plan(12);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'q', delay => d, priority => p, dedupe_key => concat(d, p))
    from unnest(array['3 s', '1 s', '2 s', '1 s', '9 s']::interval[], array[0, 0, 5, -5, 0]) x(d,
    p) \g /dev/null
select batchq.enqueue('k', queue => 'other', delay => '1 s') \g /dev/null
select t.pass('3 s') \g /dev/null
select is(batchq._promote('q', 0, 2), 2, 'n bounds a call');
select is(batchq._promote('q', 0, 100), 2, 'the rest of what is due, at its very time too');
select is(batchq._promote('q', 0, 100), 0, 'and no more');
select is((select string_agg(j.id - x.first || '', ' ' order by r.pos) from batchq.ready r
    join jobs j on j.id = r.job_id, (select min(id) as first from jobs where queue = 'q') x
    where r.queue = 'q'), '1 3 2 0', 'C-17 they take places by run_at, then id');
select is((select count(*) from batchq.scheduled), 2::bigint,
    'what is not due and what is of another queue stays');
select is((select string_agg(distinct r.attempt || ' ' || r.ties || ' ' || (r.ready_at = t.now()),
    ',') from batchq.ready r where r.queue = 'q'), '0 1 true',
    'attempts and key go along, and since when it is ready');
select is((select string_agg(l.priority::text, ' ') from batchq.lease('q', 10) l), '5 0 0 -5',
    'A-81 lanes that gained jobs are known');
select is(batchq._promote('none', 0, 100), 0, 'a queue with nothing is no error');
select batchq.enqueue('k', queue => 'from', delay => '1 s') as a \gset
select t.pass('2 s') \g /dev/null
select is(batchq._promote('from', batchq._micros(t.now() - interval '0.5 s'), 100), 0,
    'what is below from_place is not looked at');
select is(batchq._is_due('from', batchq._micros(t.now() - interval '0.5 s'), t.now()), false,
    'nor by _is_due');
select is(batchq._is_due('from', 0, t.now()), true, 'which sees it from the start');
select is(batchq._is_due('from', 0, t.now() - interval '1.5 s'), false,
    'at a time when it was due');

select * from finish();
rollback;
