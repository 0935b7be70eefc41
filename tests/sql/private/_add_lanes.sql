begin;
select plan(10);
\ir ../clock.psql

create function t.lanes(queue text) returns text language sql as $$
    select string_agg(distinct f.priority::text, ' ') from batchq.floor f
    where f.queue = $1 and f.line = 'ready'
$$;
select batchq.enqueue('k', queue => 'q', priority => p)
    from unnest(array[32767, 5, 0, -5, -32768]) p \g /dev/null
delete from batchq.floor where queue = 'q';
select is(batchq._add_lanes('q'), 5, 'every lane is found, the highest and the lowest too');
select is(t.lanes('q'), '-32768 -5 0 32767 5', 'and written down');
select is(batchq._add_lanes('q'), 0, 'asked twice, nothing is new');
delete from batchq.floor where queue = 'q' and priority in (5, -32768);
select is(batchq._add_lanes('q'), 2, 'the gaps between known ones are looked into');
select is(batchq._add_lanes('none'), 0, 'a queue without jobs has none');
select is(t.lanes('none'), null, 'and gets none');
select batchq.enqueue('k', queue => 'zero') \g /dev/null
select is(t.lanes('zero'), null, 'a job of priority 0 needs no row');
select is(batchq._add_lanes('zero') || ' ' || t.lanes('zero'), '1 0', 'but its lane is found');

-- _add_line
select batchq._add_line('line', 'scheduled', 0::smallint) \g /dev/null
select is((select string_agg(f.line || f.priority, ' ' order by f.line) from batchq.floor f
    where f.queue = 'line'), 'ready0 scheduled0', 'with the first line of a queue comes lane 0');
select batchq._add_line('line', 'ready', 3::smallint),
    batchq._add_line('line', 'ready', 3::smallint) \g /dev/null
select is((select count(*) from batchq.floor f where f.queue = 'line'), 3::bigint,
    'a line that is there is not added again');

select * from finish();
rollback;
