begin;
select plan(27);
\ir ../clock.psql

select is(count(*), count(distinct code), 'a code is listed once') from batchq.errors();
select is(count(*), count(distinct name), 'so is a name') from batchq.errors();
select ok(bool_and(code ~ '^JQ[0-9]{3}$' and name ~ '^[a-z_]+$' and http_status between 400 and 503
    and description <> ''), 'each has its parts') from batchq.errors();
select is((select e.name || ' ' || e.http_status from batchq.errors() e where e.code = x.code),
    x.name, format('%s is %s', x.code, x.name))
from (values ('JQ001', 'invalid_argument 400'), ('JQ002', 'queue_not_found 404'),
    ('JQ003', 'job_not_found 404'), ('JQ004', 'lease_lost 409'), ('JQ005', 'wrong_state 409'),
    ('JQ006', 'queue_full 429'), ('JQ009', 'version_mismatch 503')) x(code, name);
select is_empty($$ select distinct m[1] from pg_proc p,
    regexp_matches(p.prosrc, '''(JQ[0-9]{3})''', 'g') m
                   where p.pronamespace = 'batchq'::regnamespace except select code
                   from batchq.errors() where code <> 'JQ000' $$,
                   'every code a function raises is in the catalogue');

-- every message has a hint
create function t.hint(statement text) returns text language plpgsql as $$
declare
    v_hint text;
begin
    execute statement;
    return null;
exception when others then
    get stacked diagnostics v_hint = pg_exception_hint;
    return sqlstate || case when v_hint <> '' then ' hint' else ' no hint' end;
end
$$;
select t.job_in('completed', 'q') as a \gset
select is(t.hint(replace(v, 'ID', :'a')), x, format('%s comes with a hint: %s', left(x, 5), v))
from (values ('select batchq.enqueue('''')', 'JQ001 hint'),
    ('select batchq.stats(''none'')', 'JQ002 hint'), ('select batchq.get_job(-1)', 'JQ003 hint'),
    ('select batchq.complete(-1, -1)', 'JQ004 hint'),
             ('select batchq.cancel(ID)', 'JQ005 hint'),
             ('select batchq.lease(n => 0)', 'JQ001 hint'),
             ('select batchq.complete_many(null, null)', 'JQ001 hint'),
             ('select batchq.park(null)', 'JQ001 hint'),
             ('select batchq.enqueue_many(''[1]'')', 'JQ001 hint'),
             ('select batchq.redrive(array[ID])', 'JQ005 hint'),
             ('select batchq.purge(n => 0)', 'JQ001 hint'),
             ('select batchq.list_jobs(n => 0)', 'JQ001 hint'),
             ('select batchq.job_id(''x'')', 'JQ001 hint'),
             ('select batchq.job_uuid(-1)', 'JQ001 hint'), ('select batchq.reap(0)', 'JQ001 hint'),
             ('select batchq.resume(''none'')', 'JQ002 hint')) x(v, x);

select * from finish();
rollback;
