begin;
select plan(28);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'low', priority => 100) as low1,
    batchq.enqueue('k', queue => 'low') as low2,
       batchq.enqueue('k', queue => 'high', priority => -100) as high1,
       batchq.enqueue('k', queue => 'high') as high2 \gset
create function t.from_queues(queues text[], n integer) returns text language sql as $$
    select string_agg(l.job_id::text, ' ' order by l.place)
    from (select l.job_id, row_number() over () as place from batchq.lease_from($1, $2) l) l
$$;
select is(t.from_queues('{high,low}', 1), :'high2',
    'A-46 the first queue goes first, whatever the priorities');
select is(t.from_queues('{high,low}', 2), :'high1' || ' ' || :'low1',
    'A-46 a later queue only when the earlier has no more');
select is(t.from_queues('{high,low}', 10), :'low2', 'A-46 what is left');
select is(t.from_queues('{high,low}', 10), null, 'and then nothing');
select batchq.enqueue('k', queue => 'high', delay => '1 s') as due,
    batchq.enqueue('k', queue => 'low') as low3 \gset
select t.pass('1 s') \g /dev/null
select is(t.from_queues('{high,low}', 2), :'due' || ' ' || :'low3',
    'F017 a due job of a better queue goes first');
select batchq.enqueue('k', queue => 'high') \g /dev/null
select batchq.enqueue('k', queue => 'low') as low4 \gset
select batchq.pause('high') \g /dev/null
select is(t.from_queues('{high,low}', 2), :'low4', 'a paused queue is passed over');
select batchq.resume('high') \g /dev/null
select is((select count(*) from batchq.lease_from('{high,high,low}', 10)), 1::bigint,
    'F015 a queue named twice gives a job once');
select batchq.set_queue('low', lease_for => '5 s') \g /dev/null
select batchq.enqueue('k', queue => 'high'), batchq.enqueue('k', queue => 'low') \g /dev/null
select is((select string_agg(l.queue || ' ' || (l.lease_until - t.now()), ', ')
    from batchq.lease_from('{high,low}', 2, 'w') l),
          'high 00:01:00, low 00:00:05', 'F008 each queue has its own lease time');
select is((select string_agg(distinct j.locked_by, ' ') from jobs j
    where j.updated_at = t.now() and j.state = 'leased' and j.locked_by is not null), 'w',
    'worker is kept');

select throws_ok(format('select * from batchq.lease_from(%L)', v), 'JQ001', null,
    format('F065 queues %s are refused', coalesce(left(v, 20), 'null')))
from unnest(array[null, '{}', '{NULL}', '{a,NULL}', '{""}', '{a,""}',
    '{' || repeat('q', 256) || '}',
                  '{' || repeat('a,', 100) || 'a}']) v;
select lives_ok(format('select * from batchq.lease_from(%L)', '{' || repeat('a,', 99) || 'a}'),
    '100 names are taken');
select throws_ok(format('select * from batchq.lease_from(''{a}'', %L)', v), 'JQ001', null,
    format('F065 n of %s is refused', coalesce(v, 'null')))
from unnest(array['0', '-1', null, '10001', '2147483647']) v;
select throws_ok(format('select * from batchq.lease_from(''{a}'', lease_for => %L)', v), 'JQ001',
    null, format('F065 lease_for of %s is refused', v))
from unnest(array['0', '-1 s', '2 days']) v;
select batchq.enqueue('k', queue => 'all-or-none') as a \gset
select throws_ok($$ select * from batchq.lease_from(array['all-or-none', null], 5) $$, 'JQ001',
    null, 'a bad name behind a good one is refused');
select is(t.job(:a), 'ready:0', 'and nothing was leased then');

select * from finish();
rollback;
