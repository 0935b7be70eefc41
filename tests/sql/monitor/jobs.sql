begin;
select plan(94);
\ir ../clock.psql

select is((select string_agg(c.column_name || ' ' || c.data_type, ', '
    order by c.column_name collate "C") from information_schema.columns c
    where c.table_schema = 'batchq' and c.table_name = 'jobs'),
    'attempts integer, available_at timestamp with time zone, cancel_requested_at timestamp with time zone, created_at timestamp with time zone, dedupe_key text, finished_at timestamp with time zone, group_key text, headers jsonb, id bigint, kind text, '
    'last_error text, locked_by text, locked_until timestamp with time zone, max_attempts integer, payload jsonb, priority integer, progress jsonb, queue text, result jsonb, run_at timestamp with time zone, '
    'started_at timestamp with time zone, state text, status text, timeout interval, type text, updated_at timestamp with time zone',
    'A-48 … A-59 B-21 … B-30 C-12 C-23 the columns of both systems');

-- one row a job in each state
create temporary table made as select row_number() over () as n, x.state,
    t.job_in(x.state, 's-' || x.state) as id
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled',
    'purged']) x(state);
select is((select string_agg(j.status || ' ' || j.state, ', ') from jobs j where j.id = m.id), x,
    format('A-51 a %s job is one row', m.state))
from made m join (values ('ready', 'pending ready'), ('scheduled', 'pending scheduled'),
    ('leased', 'running leased'), ('completed', 'completed completed'), ('failed', 'failed failed'),
    ('cancelled', 'cancelled cancelled'), ('purged', null)) v(state, x) using (state) order by m.n;
select is((select count(*) from jobs), (select count(*) from batchq.job),
    'A-68 as many rows as jobs');
select is((select count(*) from jobs), (select count(distinct id) from jobs), 'A-48 no id twice');
select bag_eq('select status collate "default", count(*) from jobs group by status',
    $$ values ('cancelled', 1::bigint), ('completed', 1), ('failed', 1), ('pending', 2),
    ('running', 1) $$, 'A-68 jobs by status, as people write it');
select is((select string_agg(type, ' ') from jobs
    where status = 'failed' and updated_at > t.now() - interval '1 hour'), 'k',
    'A-69 failed in the last hour');
select lives_ok($$ select type, avg(extract(epoch from updated_at - created_at)), count(*) from jobs
    where status = 'completed' group by type $$, 'A-70 mean time by type');
select ok(bool_and(type = kind and available_at is not distinct from run_at),
    'C-5 C-12 type is kind, available_at is run_at') from jobs;
select ok(bool_and(run_at is not null and created_at is not null and updated_at is not null
    and payload is not null and queue is not null and priority is not null and attempts is not null
    and max_attempts is not null), 'B-22 B-29 B-30 what must not be null is not') from jobs;
select ok(bool_and((locked_by is not null) <= (status = 'running') and (locked_until is not null)
    = (status = 'running')), 'B-27 B-28 locked is running, and running is locked') from jobs;
select ok(bool_and((finished_at is not null) = (status in ('completed', 'failed', 'cancelled'))),
    'C-12 finished_at is of what is over') from jobs;
select is((select (batchq.get_job(id)).status from made where state = 'completed'), 'completed',
    'A-71 get_job says the same');
select throws_ok($$ update jobs set status = 'pending' $$, 'JQ005', null, 'UPDATE is refused');
select throws_ok($$ delete from jobs $$, 'JQ005', null, 'DELETE is refused');
select throws_ok($$ insert into batchq.outcome (job_id, finished_at, segment, attempt,
    state) values (1, now(), 0, 1, 'done') $$, '23514', null, 'A-51 no other word can be stored');

-- section 3: what is allowed, tried from every state; everything else is refused or does nothing
create temporary table edge as
select a.act, s.state, 'e-' || a.act || '-' || s.state as queue,
    t.job_in(s.state, 'e-' || a.act || '-' || s.state) as id, null::bigint as lease_id,
    null::text as outcome
from unnest(array['lease', 'complete', 'fail', 'release', 'snooze', 'reap', 'cancel', 'redrive',
    'purge', 'extend', 'promote']) a(act),
     unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled']) s(state);
update edge e set lease_id = coalesce((select l.lease_id from batchq.leased l
    where l.job_id = e.id), (select o.lease_id from batchq.outcome o where o.job_id = e.id),
    (select r.lease_id from batchq.error r where r.job_id = e.id), -1);
update batchq.leased l set (lease_until, reap_at) = (t.now(), t.now()) from edge e
    where e.id = l.job_id and e.act = 'reap';
select batchq.reap() \g /dev/null
select t.code(case e.act when 'lease' then format('select * from batchq.lease(%L)', e.queue)
                         when 'complete' then format('select batchq.complete(%s, %s)', e.id,
                         e.lease_id)
                         when 'fail' then format('select batchq.fail(%s, %s, ''e'')', e.id,
                         e.lease_id)
                         when 'release' then format('select batchq.release(%s, %s)', e.id,
                         e.lease_id)
                         when 'snooze' then format('select batchq.snooze(%s, %s, ''1 h'')', e.id,
                         e.lease_id)
                         when 'cancel' then format('select batchq.cancel(%s)', e.id)
                         when 'redrive' then format('select batchq.redrive(array[%s])', e.id)
                         when 'purge' then format('select batchq.purge(array[%s])', e.id)
                         when 'extend' then
                         format('select * from batchq.extend(array[%s], array[%s])', e.id,
                         e.lease_id)
                         when 'promote' then 'select batchq._promote_all(1000)'
                         else 'select 1' end) from edge e \g /dev/null
select is(coalesce((select string_agg(j.state, ' and ') from jobs j where j.id = e.id), 'gone'),
          case when e.act = 'lease' and e.state = 'ready' then 'leased'
               when e.act = 'complete' and e.state = 'leased' then 'completed'
               when e.act in ('fail', 'reap') and e.state = 'leased' then 'failed'
               when e.act = 'release' and e.state = 'leased' then 'ready'
               when e.act = 'snooze' and e.state = 'leased' then 'scheduled'
               when e.act = 'cancel' and e.state in ('ready', 'scheduled') then 'cancelled'
               when e.act = 'redrive' and e.state = 'failed' then 'ready'
               when e.act = 'purge' and e.state = 'failed' then 'gone'
               else e.state end, format('A-21 %s of a %s job', e.act, e.state)) from edge e
               order by e.act, e.state;

-- roles
select lives_ok(format('set local role %I; select count(*) from batchq.jobs; reset role', r),
    format('%s may read it', r)) from unnest(array['batchq_operator', 'batchq_monitor']) r;
select throws_ok(format('set local role %I; select count(*) from batchq.jobs', r), '42501', null,
    format('D-7 %s may not', r)) from unnest(array['batchq_producer', 'batchq_worker']) r;

-- jobs that wait in their group
select batchq.set_queue('g', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => 'a') as a \gset
select is(t.job(:a) || ' ' || (t.of(:a)).status || ' ' || (t.of(:a)).group_key,
    'blocked:0 pending a', 'a blocked job is pending');
select is((t.of(:a)).run_at || ' ' || (t.of(:a)).updated_at, t.now() || ' ' || t.now(),
    'since when it waits');
insert into batchq.jobs (kind, queue, group_key) values ('k', 'g', 'a') returning id as b \gset
select is(t.job(:b) || ' ' || (t.of(:b)).group_key, 'blocked:0 a', 'one that is inserted waits, too');

select * from finish();
rollback;
