begin;
select plan(10);
\ir ../clock.psql

create function t.all_seats() returns text language sql as $$
    select string_agg(format('%s:%s/%s,%s/%s', s.group_key, s.taken, s.believed, s.starts_taken,
                             s.starts_believed), ' ' order by s.group_key)
    from batchq._seats('q') s where s.taken + s.believed + s.starts_taken + s.starts_believed <> 0
$$;
select batchq.set_queue('q', group_limit => 3, group_rate => 5, group_retry => 'hold') \g /dev/null
select is(t.all_seats(), null, 'a queue without jobs has no seats taken');
select batchq.enqueue('k', queue => 'q', group_key => g)
    from generate_series(1, 4), unnest(array['a', 'b']) g \g /dev/null
select is(t.all_seats(), null, 'blocked jobs have none');
select batchq._admit('q', 0, 10) \g /dev/null
select is(t.all_seats(), 'a:3/3,3/3 b:3/3,3/3', 'ready ones have, and a permit to start');
select is(t.count('q'), 6::bigint, 'when they start');
select is(t.all_seats(), 'a:3/3,0/0 b:3/3,0/0', 'it is used');
select batchq.fail(l.job_id, l.lease_id, 'e', retry_in => '5 s')
    from (select l.* from batchq.leased l join batchq.job j on j.id = l.job_id
          where j.group_key = 'a' order by l.job_id limit 1) l \g /dev/null
select is(t.all_seats(), 'a:3/3,0/0 b:3/3,0/0', 'scheduled ones that hold theirs');
select t.pass('5 s'), batchq._promote('q', 0, 9) \g /dev/null
select is((select count(*) from batchq.blocked b where b.ties & 8 <> 0) || ' ' || t.all_seats(),
    '1 a:3/3,0/0 b:3/3,0/0', 'and then wait for their start count, too');
select batchq.complete(l.job_id, l.lease_id)
    from (select l.* from batchq.leased l join batchq.job j on j.id = l.job_id
          where j.group_key = 'b' limit 1) l \g /dev/null
select is(t.all_seats(), 'a:3/3,0/0 b:2/2,0/0', 'a call that was not read yet is counted in');
update batchq.group_state s set seated = 9, started = 8 where s.group_key = 'b';
select ok(s.believed > s.taken and s.starts_believed > s.starts_taken, 'a leak shows')
    from batchq._seats('q') s where s.group_key = 'b';
delete from batchq.group_state s where s.group_key = 'a';
select ok(s.believed < s.taken, 'so do seats that are not known') from batchq._seats('q') s
    where s.group_key = 'a';

select * from finish();
rollback;
