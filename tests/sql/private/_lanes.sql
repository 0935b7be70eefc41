begin;
select plan(8);
\ir ../clock.psql

create function t.lanes(queue text) returns text language sql as $$
    select string_agg(l.queue || l.priority, ' ' order by l.place)
    from (select l.queue, l.priority, row_number() over () as place from batchq._lanes($1) l) l
$$;
select is(t.lanes(null), null, 'without ready jobs there is no lane');
select batchq.enqueue('k', queue => q, priority => p) from unnest(array['a', 'b', 'B', 'é', '𝄞']) q,
    unnest(array[0, 5, -32768, 32767]) p, generate_series(1, 3) \g /dev/null
select batchq.enqueue('k', queue => 'later', delay => '1 h') \g /dev/null
select is(t.lanes('b'), 'b32767 b5 b0 b-32768', 'the lanes of a queue, from the high end');
select is((select count(*) || ' ' || count(distinct (l.queue, l.priority)) from batchq._lanes(null) l),
    '20 20', 'those of every queue, each once');
select is(t.lanes('nobody') , null, 'a queue that has none');
select is(t.lanes('later'), null, 'nor one with scheduled jobs alone');
delete from batchq.floor where queue = 'a' and priority in (0, 5);
select is(t.lanes('a'), 'a32767 a5 a0 a-32768', 'a lane without a floor row is found');
select count(*) from batchq.lease('a', 4) \g /dev/null
select is(t.lanes('a'), 'a5 a0 a-32768', 'an empty lane is not');
select is((select string_agg(distinct l.line, ' ') from batchq._lanes(null) l), 'ready',
    'they are lanes of ready');

select * from finish();
rollback;
