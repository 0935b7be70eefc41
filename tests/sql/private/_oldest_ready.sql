begin;
select plan(16);
\ir ../clock.psql

create function t.oldest(n integer, after_id bigint default 0, queue text default null,
                         kind text default null) returns text language sql as $$
    select string_agg(o.job_id::text, ' ' order by o.job_id)
    from batchq._oldest_ready($3, $4, null, null, $1, $2) o
$$;
create function t.places() returns bigint language sql as $$
    select count(*) from batchq._oldest_ready(null, null, null, null, 1000, 0) o
    join batchq.ready r on r.ctid = o.place and r.job_id = o.job_id
$$;
select is(t.oldest(5), null, 'without ready jobs there is none');
-- ids 1 to 60: three queues in turn, two lanes each
select batchq.enqueue('k' || i % 2, queue => 'q' || i % 3, priority => i / 30)
    from generate_series(1, 60) i \g /dev/null
select is(t.oldest(5), '1 2 3 4 5', 'the lowest ids of all lanes');
select is(t.oldest(5, 28), '29 30 31 32 33', 'beyond an id, across lanes');
select is(t.oldest(3, 0, 'q1'), '1 4 7', 'of one queue');
select is(t.oldest(3, 0, null, 'k0'), '2 4 6', 'of one kind');
select is(t.oldest(1000), (select string_agg(i::text, ' ') from generate_series(1, 60) i),
    'all, if n is that high');
select is(t.oldest(1000, 60), null, 'beyond the last there is none');
select is(t.places(), 60::bigint, 'each is found at its place');
select is(string_agg(distinct o.state, ' '), 'ready', 'and is ready')
    from batchq._oldest_ready(null, null, null, null, 5, 0) o;

-- ids far apart, and beyond a hard floor
select setval('batchq.position', 1000000) \g /dev/null
select batchq.enqueue('far', queue => 'q1') from generate_series(1, 2) \g /dev/null
select setval('batchq.position', 4000000000000000000) \g /dev/null
select batchq.enqueue('far', queue => 'q2') \g /dev/null
select is(t.oldest(4, 59), '60 1000001 1000002 4000000000000000001', 'windows grow with the gaps');
select is(t.oldest(5, 0, null, 'far'), '1000001 1000002 4000000000000000001',
    'also where few match');
select setval('batchq.position', 4611686018427387902) \g /dev/null
select batchq.enqueue('far', queue => 'last') as last \gset
select is(t.oldest(2, 4000000000000000000), '4000000000000000001 4611686018427387903',
    'to the end of all ids');

-- jobs that took a new place
delete from batchq.ready;
alter sequence batchq.position restart with 2000000;
select batchq.enqueue('k', queue => 'back') from generate_series(1, 4) \g /dev/null
select batchq.release(l.job_id, l.lease_id) from batchq.lease('back', 2) l \g /dev/null
select is(t.oldest(10), '2000000 2000001 2000002 2000003', 'returned jobs are found by their ids');
select is(t.oldest(10, 2000000), '2000001 2000002 2000003', 'beyond an id too');
select is((select string_agg(o.job_id::text, ' ' order by o.job_id)
    from (select o.job_id from batchq._oldest_ready('back', null, null, null, 3, 0) o
          order by o.job_id limit 3) o), '2000000 2000001 2000002',
    'the lowest n of both kinds are among what is found');
insert into batchq.floor (queue, line, floor, hard_floor) values ('back', 'ready', 2000003, 2000003);
select is(t.oldest(10), '2000000 2000001 2000003', 'what is below a hard floor is not looked at');

select * from finish();
rollback;
