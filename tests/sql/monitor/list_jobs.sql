begin;
select plan(57);
\ir ../clock.psql

create temporary table made as select row_number() over () as n, x.state,
    t.job_in(x.state, 's-' || x.state) as id
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled',
    'purged']) x(state);
create function t.list(filter text) returns text language plpgsql as $$
declare
    v_found text;
begin
    execute
    format('select string_agg(m.state, '' '' order by l.place) from (select l.id, row_number() over () as place from batchq.list_jobs(%s) l) l join made m on m.id = l.id',
    filter) into v_found;
    return v_found;
end
$$;
select is(t.list(''), 'cancelled failed completed leased scheduled ready',
    'C-21 all jobs, newest first; a purged one is not there');
select is(t.list(format('status => %L', s)), x, format('B-17 status %s', s))
from (values ('pending', 'scheduled ready'), ('running', 'leased'), ('processing', 'leased'),
    ('completed', 'completed'), ('failed', 'failed'), ('cancelled', 'cancelled')) v(s, x);
select is(t.list(format('state => %L', s)), s, format('C-21 state %s', s))
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled']) s;
select is(l.status || ' ' || l.state, 'running leased', 'B-23 C-3 output says running')
    from batchq.list_jobs(status => 'processing') l;
select is(t.list('status => ''pending'', state => ''leased'''), null,
    'status and state must both match');
select is(t.list('queue => ''s-failed'''), 'failed', 'C-21 by queue');
select is(t.list('queue => ''S-failed'''), null, 'F064 whose name is exact');
select batchq.enqueue('demo_task') \g /dev/null
select is((select count(*) from batchq.list_jobs(kind => 'demo_task')), 1::bigint, 'B-18 by kind');
select is(t.list('kind => ''k'', status => ''failed'', queue => ''s-failed'''), 'failed',
    'B-18 filters together');
select is(t.list('kind => ''nothing'''), null, 'nothing matches: no row');
select t.now() as cut \gset
select t.pass('1 s') \g /dev/null
select batchq.enqueue('late') as late \gset
select is((select array_agg(id) from batchq.list_jobs(created_after => :'cut'::timestamptz
    + interval '1 s')), array[:late]::bigint[], 'C-21 created_after has its own instant');
select is((select count(*) from batchq.list_jobs(created_after => :'cut'::timestamptz
    + interval '1000001 microseconds')), 0::bigint, 'and leaves out what is before');
select is((select count(*) from batchq.list_jobs(created_before => :'cut')), 0::bigint,
    'created_before leaves out its own instant');
select is((select count(*) from batchq.list_jobs(created_before => :'cut'::timestamptz
    + interval '1 microsecond')), 7::bigint, 'and has what is before');

-- pages
select batchq.enqueue_many((select jsonb_agg('{"kind": "p", "queue": "page"}'::jsonb)
    from generate_series(1, 120))) \g /dev/null
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('page', 40) l \g /dev/null
select is((select count(*) from batchq.list_jobs(queue => 'page')), 50::bigint,
    'C-21 50 a page unless told otherwise');
create temporary table walked (id bigint, page integer);
do $$
declare
    v_last bigint;
    v_n integer;
begin
    for page in 1..100 loop
        insert into walked select l.id, page
        from batchq.list_jobs(queue => 'page', n => 7, before_id => v_last) l;
        get diagnostics v_n = row_count;
        exit when v_n = 0;
        select min(id) into v_last from walked;
        -- the list changes under the walk: jobs are added and change state
        perform batchq.enqueue('p', queue => 'page');
        perform batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('page', 3) l;
    end loop;
end
$$;
select is(count(*) || ' ' || count(distinct id), '120 120',
    'B-19 pages neither repeat nor skip while jobs are added and change state') from walked;
select is((select count(*) from batchq.list_jobs(queue => 'page', n => 500)),
    (select count(*) from jobs where queue = 'page'),
    'B-17 500 at once are taken, and are what the view has');
select is((select string_agg(id::text, ' ') from batchq.list_jobs(queue => 'page', n => 1)),
    (select max(id)::text from jobs where queue = 'page'), 'n 1 is the newest');
select is((select count(*) from batchq.list_jobs(before_id => 0)), 0::bigint,
    'before the first there is nothing');

-- by dedupe key
select batchq.enqueue('k', queue => 'keys', dedupe_key => 'K') as k1 \gset
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('keys') l \g /dev/null
select batchq.enqueue('k', queue => 'keys', dedupe_key => 'K') as k2,
    batchq.enqueue('k', queue => 'more', dedupe_key => 'K') as k3,
    batchq.enqueue('k', queue => 'keys', dedupe_key => 'other') as k4 \gset
create function t.keyed(key text, queue text default null, state text default null) returns bigint[]
language sql as $$
    select array_agg(l.id) from batchq.list_jobs(dedupe_key => $1, queue => $2, state => $3) l
$$;
select is(t.keyed('K'), array[:k3, :k2, :k1]::bigint[],
    'C-21 by dedupe key: also jobs that are over, of all queues');
select is(t.keyed('K', 'keys'), array[:k2, :k1]::bigint[], 'of one queue');
select is(t.keyed('K', 'keys', 'completed'), array[:k1]::bigint[], 'in one state');
select is(t.keyed('k'), null, 'F064 whose text is exact');
select is((select array_agg(l.id) from batchq.list_jobs(dedupe_key => 'K', before_id => :k3) l),
    array[:k2, :k1]::bigint[], 'and page by page');

-- a filter that few match: pages that are cut short say where to go on
insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts, queue, kind,
                        payload)
select i, t.now(), t.now(), 0, 0, 1, 'bulk', case when i in (2000000, 2040000) then 'rare' else 'k'
       end, '{}'
from generate_series(2000000, 2080000) i;
insert into batchq.outcome (job_id, finished_at, segment, attempt, state)
select i, t.now(), 0, 1, 'completed' from generate_series(2000000, 2080000) i;
select setval('batchq.position', 2080000) \g /dev/null
create function t.walk(filter text) returns text language plpgsql as $$
declare
    v_last bigint;
    v_job record;
    v_found text := '';
begin
    for page in 1..50 loop
        for v_job in execute format('select id, state from batchq.list_jobs(%s, before_id => %L)',
                                    filter, v_last) loop
            v_last := v_job.id;
            v_found := v_found || case when v_job.state is null then '-' else v_job.id || ' ' end;
        end loop;
        exit when not found or v_job.state is not null;
    end loop;
    return v_found;
end
$$;
select is(l.state || ' ' || l.kind, null, 'B-18 nothing found yet: a row with an id only')
    from batchq.list_jobs(kind => 'rare') l;
select is(regexp_replace(t.walk('kind => ''rare'''), '-+', '', 'g'), '2040000 2000000 ',
    'B-18 B-19 and from there on both are found, each once');
select is(regexp_replace(t.walk('kind => ''rare'', status => ''completed'''), '-+', '', 'g'),
    '2040000 2000000 ', 'also of one status');
select is(regexp_replace(t.walk('kind => ''rare'', status => ''failed'''), '-+', '', 'g'), '',
    'and none of another');
select is(regexp_replace(t.walk('queue => ''none'''), '-+', '', 'g'), '', 'none of no queue');

-- jobs that wait for their turn
select batchq.set_queue('turns', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'turns', group_key => 'g') from generate_series(1, 3) \g /dev/null
select batchq.lease('turns') \g /dev/null
select is((select string_agg(l.state, ' ') from batchq.list_jobs(queue => 'turns') l),
    'blocked blocked leased', 'C-21 blocked jobs are listed');
select is((select string_agg(l.status, ' ') from batchq.list_jobs(state => 'blocked') l),
    'pending pending', 'by their state');
select is((select count(*) from batchq.list_jobs(status => 'pending', queue => 'turns')), 2::bigint,
    'and as pending ones');

-- refusals
select throws_ok(format('select batchq.list_jobs(n => %L)', v), 'JQ001', null,
    format('F065 n of %s is refused', coalesce(v, 'null')))
    from unnest(array['0', '-1', null, '501', '1000000000']) v;
select throws_ok(format('select batchq.list_jobs(status => %L)', v), 'JQ001', null,
    format('B-17 status %L is refused', v))
    from unnest(array['', 'Running', 'ready', 'blocked', 'x'';drop table x;--']) v;
select throws_ok(format('select batchq.list_jobs(state => %L)', v), 'JQ001', null,
    format('state %L is refused', v)) from unnest(array['', 'running', 'pending', 'Ready']) v;

-- F063 a time forced in does not keep others from being listed
update batchq.scheduled set run_at = 'infinity'
    where job_id = (select id from made where state = 'scheduled');
update batchq.job set run_at = '-infinity' where id = (select id from made where state = 'ready');
select is(t.list('status => ''pending'', n => 500'), 'scheduled ready',
    'F063 jobs of infinite times are listed with the rest');

select * from finish();
rollback;
