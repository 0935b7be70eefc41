begin;
select plan(17);
\ir ../clock.psql

create function t.admit(n integer default 500) returns integer language sql as $$
    select batchq._admit('q', 0, $1)
$$;
select batchq.set_queue('q', group_limit => 2) \g /dev/null
select is(t.admit(), 0, 'without calls nobody is admitted');
select batchq.enqueue('k', queue => 'q', group_key => g, dedupe_key => g || i)
    from unnest(array['a', 'b', 'c']) g, generate_series(1, 3) i \g /dev/null
select is(t.admit(2), 2, 'so many calls are read');
select is(t.admit(), 4, 'then the others');
select is((select string_agg(j.dedupe_key, ' ' order by r.pos) from batchq.ready r
           join batchq.job j on j.id = r.job_id), 'a1 a2 b1 c1 b2 c2',
    'first jobs of groups come before second ones');
select is((select string_agg(distinct r.ties::text, ' ') from batchq.ready r), '13',
    'they have a seat, and keep their other ties');
select is(t.admit(), 0, 'each call is read once');
select is((select count(*) from batchq.call c where c.queue = 'q'), 0::bigint, 'and gone');
select is((select count(*) from batchq.group_state s where s.queue = 'q'), 3::bigint,
    'a group has one row of state');
select t.count('q') \g /dev/null
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'q' \g /dev/null
select is(t.admit(), 3, 'a seat that came back is given');
select is((select count(*) from batchq.group_state s where s.queue = 'q'), 3::bigint,
    'a state takes the place of the one before');
insert into batchq.call (due_at, queue, group_key, seats) values (t.now(), 'q', 'a', 1000);
select t.admit() \g /dev/null
select is(max(s.seated), 0, 'more seats than there are cannot come back')
    from batchq.group_state s where s.group_key = 'a';
insert into batchq.call (due_at, queue, group_key) values (t.now(), 'q', 'nobody');
select is(t.admit(), 0, 'a group without jobs may be called');
insert into batchq.call (due_at, queue, group_key) values (t.now() + '1 s', 'q', 'a');
select is(t.admit(), 0, 'a call is not read before its time');
select is((select count(*) from batchq.call c where c.queue = 'q'), 1::bigint, 'it stays');

-- many of one group, marks
select batchq.set_queue('q', group_limit => 10000) \g /dev/null
select batchq.enqueue_many(jsonb_agg('{"kind": "k", "queue": "q", "group_key": "many"}'::jsonb))
    from generate_series(1, 2500) \g /dev/null
select is(t.admit() || ' ' || t.admit() || ' ' || t.admit(), '1000 1000 500',
    'a thousand of a group at a time');
select is(s.low_rank || ' ' || s.low_pos, '32767 9223372036854775807',
    'the mark of a group says that nobody waits') from batchq.group_state s
    where s.group_key = 'many';
select is((select string_agg(distinct f.priority::text, ' ') from batchq.floor f
           where f.queue = 'q' and f.line = 'ready'), '0', 'lanes are known');

select * from finish();
rollback;
