begin;
select plan(15);
\ir ../clock.psql

create function t.gates(queue text) returns text language sql as $$
    select string_agg(g.gate || case when g.holds then '' else '!' end, ' ' order by g.place)
    from (select g.*, row_number() over () as place from batchq.explain_queue($1) g) g
    where g.gate <> 'cleanup'
$$;
create function t.says(queue text, gate text) returns text language sql as $$
    select g.says from batchq.explain_queue($1) g where g.gate = $2
$$;
create function t.works(queue text, kinds text[]) returns void language sql as $$
    select batchq.beat_worker(gen_random_uuid(), 'w', 'h', 1, '1', array[$1], $2, 1, 0)
$$;

select batchq.enqueue('k', queue => 'q') \g /dev/null
select is(t.gates('q'), 'worker depth! upkeep!', 'no worker, and no upkeep was ever done');
update batchq.upkeep set next_at = t.now() - interval '59 s';
select t.works('q', '{k}') \g /dev/null
select is(t.gates('q'), 'depth!', 'nothing holds it back');
select is(t.says('q', 'depth'),
    'nothing holds queue q back: 1 ready, 0 scheduled, 0 blocked', 'and said, with its depth');
select batchq.enqueue(k, queue => 'q') from unnest(array['z', 'y', 'k']) k \g /dev/null
select batchq.enqueue('x', queue => 'q', delay => '1 min') as x \gset
select is(t.gates('q'), 'kind kind kind depth!', 'kinds that nobody alive knows');
select is(string_agg(g.data ->> 'kind', ' '), 'x y z', 'each by its name, also of one put off')
    from batchq.explain_queue('q') g where g.gate = 'kind';
select batchq.cancel(:x) \g /dev/null
select is(t.says('q', 'depth'), '4 ready, 0 scheduled, 0 blocked', 'the depth is told beside it');
select t.works('q', '{y,z}') \g /dev/null
select batchq.pause('q') \g /dev/null
select is(t.gates('q'), 'paused depth!', 'it is paused');
select batchq.resume('q') \g /dev/null
select batchq.set_queue('q', max_running => 0, rate => 0, max_depth => 4, on_full => 'delay')
    \g /dev/null
select is(t.gates('q'), 'cap rate depth! full!', 'stopped by cap and rate, and full');
select is(t.says('q', 'full'), 'queue q is full, 4 jobs may wait: enqueue delays more', 'what then');
update batchq.upkeep set next_at = t.now() - interval '61 s' where task = 'reap';
select is(t.says('q', 'upkeep') ~ '^upkeep is overdue \(reap', true, 'upkeep that is late');

select batchq.set_queue('g', group_limit => 1) \g /dev/null
select t.works('g', '{k}') \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => key)
    from unnest(array['a', 'b', 'b', 'c', 'b']) key \g /dev/null
select is(t.says('g', 'groups'), '3 groups wait for their turn; b has the most jobs: 3', 'groups');
select is(g.data, '{"groups": 3, "largest": "b", "largest_jobs": 3, "is_exact": true}',
    'the same as data') from batchq.explain_queue('g') g where g.gate = 'groups';
select t.take('g', 5) \g /dev/null
select is(t.says('g', 'groups'), '1 group waits for its turn; b has the most jobs: 2', 'one group');

select is(t.code('select batchq.explain_queue(''no'')'), 'JQ002', 'no such queue');
set local role batchq_monitor;
select count(*) > 0 as seen from batchq.explain_queue('g') \gset
reset role;
select is(:'seen'::boolean, true, 'F074 the role batchq_monitor may call it');

select * from finish();
rollback;
