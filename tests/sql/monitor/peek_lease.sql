begin;
select plan(16);
\ir ../clock.psql

-- ids and states, in order
create function t.peek(queue text, n integer default 10) returns text language sql as $$
    select string_agg(p.job_id || ':' || p.state, ' ' order by p.place)
    from (select p.*, row_number() over () as place from batchq.peek_lease($1, $2) p) p
$$;

select batchq.enqueue('k', queue => 'q') as a \gset
select batchq.enqueue('k', queue => 'q', priority => 3) as b \gset
select batchq.enqueue('k', queue => 'q', delay => '1 min') as c \gset
select is(t.peek('q'), format('%s:ready %s:ready', :b, :a), 'the best first');
select is(to_jsonb(p), jsonb_build_object('job_id', :b, 'kind', 'k', 'priority', 3,
    'group_key', null, 'state', 'ready'), 'what is told of a job') from batchq.peek_lease('q', 1) p;
select is(t.peek('q', 1), format('%s:ready', :b), 'as many as asked for');
select t.pass('1 min') \g /dev/null
select is(t.peek('q'), format('%s:ready %s:ready %s:scheduled', :b, :a, :c), 'one that is due');
select is(t.peek('q'), format('%s:ready %s:ready %s:scheduled', :b, :a, :c), 'nothing was taken');
select is(t.take('q', 10), format('%s %s %s', :b, :a, :c), 'a lease gives the same');
select is(t.peek('q'), null, 'nothing is left');

select batchq.enqueue('k', queue => 'q') from generate_series(1, 5) \g /dev/null
select batchq.set_queue('q', max_running => 5) \g /dev/null
select is((select count(*) from batchq.peek_lease('q')), 2::bigint, 'as many as the cap lets');
select batchq.set_queue('q', rate => 1) \g /dev/null
select is((select count(*) from batchq.peek_lease('q')), 1::bigint, 'or the rate');
select batchq.pause('q') \g /dev/null
select is(t.peek('q'), null, 'none of a paused queue');

select batchq.set_queue('g', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => 'x') as d \gset
select batchq.enqueue('k', queue => 'g', group_key => 'x') as e \gset
select batchq.enqueue('k', queue => 'g', group_key => 'y') as f \gset
select is(t.peek('g'), format('%s:blocked %s:blocked', :d, :f), 'one of each group');
select is(t.take('g', 10), format('%s %s', :d, :f), 'and the lease gives the same');

select is(t.code('select batchq.peek_lease(''no'')'), 'JQ002', 'no such queue');
select is(t.code(format('select batchq.peek_lease(''g'', %s)', n)), 'JQ001', 'n of 1 to 1,000')
    from unnest(array[0, 1001]) n;
set local role batchq_monitor;
select count(*) as seen from batchq.peek_lease('g') \gset
reset role;
select is(:seen, 0, 'F074 the role batchq_monitor may call it');

select * from finish();
rollback;
