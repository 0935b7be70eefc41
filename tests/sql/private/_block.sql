begin;
select plan(11);
\ir ../clock.psql

select batchq.enqueue('k', queue => q, group_key => 'g', priority => p, dedupe_key => q || p) as id
    from unnest(array['one', 'more', 'none']) q, unnest(array[-5, 0, 5]) p \g /dev/null
delete from batchq.ready;
insert into batchq.queue (queue, group_limit) values ('one', 1), ('more', 2);
create function t.block(queue text, ties integer, are_new boolean) returns void language sql as $$
    select batchq._block(array_agg(row(j.id, j.segment, 3, $2, j.queue, j.priority)::batchq.pending_job
                                   order by j.priority), $3)
    from batchq.job j where j.queue = $1
$$;
create function t.waiting(queue text) returns text language sql as $$
    select string_agg(b.priority::text, ' ' order by b.rank, b.pos)
    from batchq.blocked b where b.queue = $1
$$;
select t.block('one', 4, true), t.block('more', 4, false), t.block('none', 4, false) \g /dev/null
select is(t.waiting('one'), '-5 0 5', 'where one may run at a time jobs wait in their order');
select is(t.waiting('more'), '5 0 -5', 'elsewhere by priority');
select is(t.waiting('none'), '5 0 -5', 'also where the queue limits groups no more');
select ok(bool_and(b.pos = b.job_id), 'new jobs keep their id as place') from batchq.blocked b
    where b.queue = 'one';
select ok(bool_and(b.pos > (select max(j.id) from batchq.job j)), 'others take new ones')
    from batchq.blocked b where b.queue = 'more';
select is((select string_agg(distinct b.attempt || ' ' || b.ties || ' ' || b.group_key, ', ')
           from batchq.blocked b), '3 4 g', 'what they carry stays');
select is((select count(*) from batchq.call c), 3::bigint, 'each group is called once');
select is((select row(c.rank, c.pos)::text from batchq.call c where c.queue = 'more'),
    (select row(b.rank, b.pos)::text from batchq.blocked b where b.queue = 'more'
     order by b.rank, b.pos limit 1), 'with its first new job');
select is((select string_agg(distinct f.queue, ' ' order by f.queue) from batchq.floor f
           where f.line = 'round'), 'more none one', 'leases of their queues look at groups');
select batchq.enqueue('k', queue => 'one', group_key => 'g') as held \gset
delete from batchq.blocked where job_id = :held;
select batchq._block(array[row(j.id, j.segment, 1, 12, j.queue, j.priority)::batchq.pending_job], false)
    from batchq.job j where j.id = :held \g /dev/null
select is((select b.job_id from batchq.blocked b where b.queue = 'one' order by b.rank, b.pos
           limit 1), :held::bigint, 'one that kept its seat comes first');
select is(t.take('one'), :'held', 'and starts first');

select * from finish();
rollback;
