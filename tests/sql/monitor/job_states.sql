begin;
select plan(21);
\ir ../clock.psql

create function t.states(job_ids bigint[]) returns text language sql as $$
    select string_agg(s.status || ':' || s.state || ':' || s.queue, ' ' order by s.place)
    from (select j.*, row_number() over () as place from batchq.job_states($1) j) s
$$;
select is(t.states(array[t.job_in(x, x)]), y || ':' || x || ':' || x,
    format('a %s job is %s', x, y))
    from (values ('ready', 'pending'), ('scheduled', 'pending'), ('leased', 'running'),
        ('completed', 'completed'), ('failed', 'failed'), ('cancelled', 'cancelled')) v(x, y);
select is(t.states(array[t.job_in('purged', 'p')]), null, 'one that was purged gives no row');

select batchq.enqueue('k', queue => 'r') as a \gset
select batchq.release(l.job_id, l.lease_id) from batchq.lease('r') l \g /dev/null
select is(t.states(array[:a]), 'pending:ready:r', 'one that took a new place is found');
select batchq.enqueue('k', queue => 'r', priority => 7) as b \gset
select is(t.states(array[:b, :a, :b, null, 0, -1, 9223372036854775807]),
    'pending:ready:r pending:ready:r', 'each once, in order of id; unknown ids give no row');
select is((select array_agg(s.job_id) from batchq.job_states(array[:b, :a]) s), array[:a, :b]::bigint[],
    'with its id');
select is(t.states('{}'), null, 'of none there is none');
select is((select count(*) from batchq.jobs j),
    (select count(*) from batchq.jobs j
     join batchq.job_states(array(select x.id from batchq.jobs x)) s
       on s.job_id = j.id and s.state = j.state and s.status = j.status and s.queue = j.queue),
    'it says what the view says');

select batchq.enqueue_many((select jsonb_agg('{"kind": "k", "queue": "many"}'::jsonb)
    from generate_series(1, 500))) \g /dev/null
select is((select count(*) from batchq.job_states(array(
    select i from generate_series(1, 10000) i)) s where s.queue = 'many'), 500::bigint,
    '10,000 ids are taken');
select throws_ok(format('select batchq.job_states(%L)', v), 'JQ001', null,
    format('%s is refused', coalesce(left(v, 12), 'null')))
    from unnest(array[null, '{{1,2}}', '[0:0]={1}', array_fill(1, array[10001])::text]) v;

set local role batchq_monitor;
select count(*) as one from batchq.job_states(array[:a]) \gset
set local role batchq_worker;
select count(*) as two from batchq.job_states(array[:a]) \gset
reset role;
select is(:one, 1, 'F074 the role batchq_monitor may call it');
select is(:two, 1, 'and every other role of batchq');
select is(t.states(array[:a]), 'pending:ready:r', 'asking changes nothing');

select batchq.set_queue('g', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => 'a') as a \gset
select is(t.states(array[:a]), 'pending:blocked:g', 'a job that waits in its group is pending, blocked');

select * from finish();
rollback;
