begin;
select plan(12);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'q') as a \gset
select batchq.pause('q', 'why') \g /dev/null
select batchq.resume('q') \g /dev/null
select is(t.take('q'), :'a', 'a resumed queue gives its jobs again');
select ok(num_nonnulls(q.paused_at, q.paused_by, q.pause_reason) = 0,
    'nothing of the pause is left') from batchq.queue q where q.queue = 'q';
select lives_ok($$ select batchq.resume('q') $$, 'asked twice is no error');
select batchq.enqueue('k', queue => 'plain') \g /dev/null
select lives_ok($$ select batchq.resume('plain') $$,
    'a queue that has jobs but was never leased from nor paused stays as it is');
select batchq.enqueue('k', queue => 'prio', priority => 3) \g /dev/null
select lives_ok($$ select batchq.resume('prio') $$, 'so does one of another priority');
select batchq.enqueue('k', queue => 'later', delay => '1 s') \g /dev/null
select lives_ok($$ select batchq.resume('later') $$, 'and one whose jobs are scheduled');
select is((select count(*) from batchq.queue where queue <> 'q'), 0::bigint, 'and needs no row');
select throws_ok($$ select batchq.resume('nobody') $$, 'JQ002', null,
    'a queue nobody used or set up is not found');
select is(t.message($$ select batchq.resume('nobody') $$), 'no queue ''nobody''',
    'the message names it');
select throws_ok(format('select batchq.resume(%L)', v), 'JQ001', null,
    format('F064 queue %L is refused', left(v, 9)))
    from unnest(array[null, '', repeat('q', 256)]) v;

select * from finish();
rollback;
