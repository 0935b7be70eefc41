begin;
select plan(21);
\ir ../clock.psql

create function t.listed(queue text, n integer default 100) returns text language sql as $$
    select string_agg(format('%s:%s%s/%s of %s', g.group_key, g.blocked,
        case when g.is_exact then '' else '+' end, g.seats, coalesce(g.group_limit::text, '-')),
        ' ' order by g.place)
    from (select l.*, row_number() over () as place from batchq.list_groups($1, $2) l) g
$$;

select batchq.set_queue('q', group_limit => 2) \g /dev/null
select is(t.listed('q'), null, 'a queue without jobs in groups has none');
select batchq.enqueue('k', queue => 'q', group_key => k)
from unnest(array['b', 'b', 'b', 'b', 'b', 'a', 'c', 'c', 'c']) k \g /dev/null
select batchq.enqueue('k', queue => 'q') \g /dev/null
select is(t.listed('q'), 'b:5/0 of 2 c:3/0 of 2 a:1/0 of 2',
    'those with the most blocked jobs first');
select t.pass('5 s') \g /dev/null
select batchq.lease('q', 4) \g /dev/null
select is(t.listed('q'), 'b:3/2 of 2 c:1/2 of 2 a:0/1 of 2',
    'seats: jobs that are ready or running');
select is(string_agg(coalesce(extract(epoch from t.now() - g.next_since)::integer::text, '-'), ' '),
    '5 5 -', 'since when the next job is blocked') from batchq.list_groups('q') g;
select is(t.listed('q', 1), 'b:3/2 of 2', 'n bounds the list');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l
join batchq.job j on j.id = l.job_id where j.group_key = 'b' limit 1 \g /dev/null
select is(t.listed('q', 1), 'b:3/1 of 2', 'a seat that came back counts before it is taken');
select batchq.lease('q') \g /dev/null
select is(t.listed('q', 1), 'b:2/2 of 2', 'and the next job takes it');

select batchq.set_group('q', 'b', group_limit => 7) \g /dev/null
select is(t.listed('q', 1), 'b:2/2 of 7', 'the limit is the group''s own, if it has one');
select ok(g.is_set and g.weight = 1, 'which is told') from batchq.list_groups('q', 1) g;
select batchq.set_group('q', 'new', weight => 3) \g /dev/null
select is(t.listed('q'), 'b:2/2 of 7 c:1/2 of 2 a:0/1 of 2 new:0/0 of 2',
    'a group for which something is set is there without jobs');
select batchq.set_queue('q', fair => true, clear => '{group_limit}') \g /dev/null
select is(t.listed('q'), 'b:2/2 of 7 c:1/2 of 20 a:0/1 of 20 new:0/0 of 60',
    'where groups take turns, 20 seats for each unit of weight');
select batchq.set_group('q', 'b', reset => true), batchq.set_group('q', 'new', reset => true)
\g /dev/null
select is(t.listed('q'), 'b:2/2 of 20 c:1/2 of 20 a:0/1 of 20', 'until it is reset');
select batchq.set_queue('q', reset => true) \g /dev/null
select is(t.listed('q'), 'b:2/2 of - c:1/2 of - a:0/1 of -', 'without a limit there is none');

select batchq.set_queue('many', group_limit => 1) \g /dev/null
select batchq.enqueue_many(jsonb_agg(jsonb_build_object('kind', 'k', 'queue', 'many', 'group_key',
    case when n <= 10100 then n::text else 'big' end))) from generate_series(1, 10300) n
\g /dev/null
select is(count(*) || ' ' || max(g.blocked) || ' ' || bool_and(g.is_exact), '10000 1 true',
    'ten thousand groups are looked at, by key') from batchq.list_groups('many', 10000) g;
delete from batchq.blocked where group_key < '9' collate "C" \g /dev/null
select is(t.listed('many', 1), 'big:200/0 of 1', 'and counted, the largest first');
select batchq.enqueue_many(jsonb_agg(jsonb_build_object('kind', 'k', 'queue', 'many',
    'group_key', 'big'))) from generate_series(1, 1000) n \g /dev/null
select is(t.listed('many', 1), 'big:898+/0 of 1', 'of many groups only so far');

select throws_ok(format('select batchq.list_groups(''q'', %s)', v), 'JQ001', null,
    format('F065 n of %s is refused', v)) from unnest(array['0', '10001', 'null']) v;
select throws_ok('select batchq.list_groups(''none'')', 'JQ002', null, 'an unknown queue too');

set local role batchq_monitor;
select count(*) as listed from batchq.list_groups('q') \gset
reset role;
select is(:listed, 3, 'F074 the role batchq_monitor may call it');

select * from finish();
rollback;
