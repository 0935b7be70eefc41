begin;
select plan(25);
\ir ../clock.psql

create function t.die(error text, queue text default 'q', kind text default 'k') returns bigint
language plpgsql as $$
declare
    v_id constant bigint := batchq.enqueue($3, queue => $2, max_attempts => 1);
begin
    perform batchq.fail(l.job_id, l.lease_id, $1) from batchq.lease($2) l;
    return v_id;
end
$$;
create function t.listed(queue text default null, kind text default null, n integer default 100)
returns text language sql as $$
    select string_agg(format('%s×%s/%s/%s', e.jobs, e.error, e.queue, e.kind), ', '
                      order by e.place)
    from (select l.*, row_number() over () as place from batchq.list_errors($1, $2, $3) l) e
$$;

select is_empty('select * from batchq.list_errors()', 'without dead letters there is none');
select t.now() as start \gset
select t.die('no user 5') as a \gset
select t.pass('1 s') \g /dev/null
select t.die(E'no user 66\nTraceback 1') as b \gset
select t.die(E'no user 66\nTraceback 2') as c \gset
select is(t.listed(), '3×no user N/q/k', 'those that failed alike are one row');
select is(e.first_at || ' ' || e.last_at, :'start'::timestamptz || ' ' || t.now(),
    'with the times of the first and of the last') from batchq.list_errors() e;
select is(e.job_ids, array[:c, :b, :a]::bigint[], 'and ids, the newest first')
    from batchq.list_errors() e;
select t.die('no user 7', 'other') \g /dev/null
select t.pass('1 s') \g /dev/null
select t.die('no user 7', 'q', 'l') \g /dev/null
select is(t.listed(), '3×no user N/q/k, 1×no user N/q/l, 1×no user N/other/k',
    'queues and kinds are apart; the most frequent first, then the last');
select is(t.listed('other'), '1×no user N/other/k', 'of one queue');
select is(t.listed(kind => 'l'), '1×no user N/q/l', 'of one kind');
select is(t.listed('q', 'k'), '3×no user N/q/k', 'of both');
select is(t.listed('none') || t.listed(kind => 'none'), null, 'of one that there is not: none');
select is(t.listed(n => 1), '3×no user N/q/k', 'n bounds the rows');

select t.die('x ' || i, 'many') from generate_series(1, 25) i \g /dev/null
select is(e.jobs || ' ' || cardinality(e.job_ids), '25 10', 'at most 10 ids are shown')
    from batchq.list_errors('many') e;
select is(e.job_ids, (select array_agg(j.id order by j.id desc) from (select x.id from batchq.jobs x
    where x.queue = 'many' order by x.id desc limit 10) j), 'the newest')
    from batchq.list_errors('many') e;

select batchq.enqueue('k', queue => 'two', max_attempts => 2, backoff => 'fixed',
    backoff_base => '1 s') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'first') from batchq.lease('two') l \g /dev/null
select is(t.listed('two'), null, 'a retry is no dead letter');
select t.pass('1 s') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'second') from batchq.lease('two') l \g /dev/null
select is(t.listed('two'), '1×second/two/k', 'the error of the last attempt counts');
select batchq.redrive(queue => 'two') \g /dev/null
select is(t.listed('two'), null, 'one that was put back is gone');

-- more than are looked at
insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts, queue, kind,
                        payload)
select i, t.now(), t.now(), 0, 0, 1, 'deep', 'k', '{}' from generate_series(1000001, 1005003) i;
insert into batchq.dead (job_id, failed_at, segment, priority, attempt, queue)
select i, t.now(), 0, 0, 1, 'deep' from generate_series(1000001, 1005003) i;
select is(t.listed('deep'), '5000×/deep/k, 3×/deep/',
    'F093 the newest 5,000 are grouped, the others are one row without an error');
select is(e.error is null and e.job_ids is null, true, 'that is the last')
    from batchq.list_errors('deep') e offset 1;
select is(t.listed('deep', n => 1), '5000×/deep/k, 3×/deep/', 'also where n groups are shown');
delete from batchq.dead where queue = 'deep' and job_id > 1005000;
select is(t.listed('deep'), '5000×/deep/k', 'none where all were looked at');
delete from batchq.dead where queue = 'deep';

select throws_ok(format('select batchq.list_errors(n => %s)', v), 'JQ001', null,
    format('F065 n of %s is refused', v)) from unnest(array['0', '-1', 'null', '1001']) v;

set local role batchq_monitor;
select count(*) as one from batchq.list_errors() \gset
set local role batchq_producer;
select count(*) as two from batchq.list_errors() \gset
reset role;
select is(:one, 4, 'F074 the role batchq_monitor may call it');
select is(:two, 4, 'and every other role of batchq');

select * from finish();
rollback;
