begin;
select plan(45);
\ir ../clock.psql

\set u1 '00000000-0000-4000-8000-000000000001'
\set u2 '00000000-0000-4000-8000-000000000002'
create function t.beat(worker_id uuid, running integer default 0, stopping boolean default false)
returns void language sql as $$
    select batchq.beat_worker($1, 'w', 'h', 7, '1.2.3', '{a,b}', '{k}', 10, $2, stopping => $3)
$$;
create function t.worker(worker_id uuid) returns batchq.worker language sql as $$
    select w from batchq.worker w where w.worker_id = $1
$$;

select batchq.beat_worker(:'u1', 'w', 'h', 7, '1.2.3', '{a,b}', '{k}', 10, 3, 5000000000)
    \g /dev/null
select is(to_jsonb(w) - 'started_at' - 'beat_at', jsonb_build_object('worker_id', :'u1', 'worker',
    'w', 'host', 'h', 'pid', 7, 'version', '1.2.3', 'queues', '["a", "b"]'::jsonb, 'kinds',
    '["k"]'::jsonb, 'concurrency', 10, 'running', 3, 'memory_bytes', 5000000000, 'stopping', false,
    'drain_requested_at', null),
    'the first beat puts a worker on the list, with all it says') from batchq.worker w;
select is((t.worker(:'u1')).started_at, t.now(), 'it is there since then');
select t.pass('30 s') \g /dev/null
select t.beat(:'u1', 4, true) \g /dev/null
select is((select count(*) from batchq.worker), 1::bigint,
    'asked twice is no error: it is the same worker');
select is((t.worker(:'u1')).beat_at - (t.worker(:'u1')).started_at, '30 s',
    'the next beat keeps the time of the first');
select is((t.worker(:'u1')).running || ' ' || (t.worker(:'u1')).stopping
    || coalesce((t.worker(:'u1')).memory_bytes::text, ' null'), '4 true null',
    'and says what is so now');
select batchq.beat_worker(:'u1', 'w2', 'h2', 8, '1.2.4', '{}', '{x,y}', 11, 0) \g /dev/null
select is(w.worker || w.host || w.pid || w.version || w.queues::text || w.kinds::text
    || w.concurrency, 'w2h281.2.4{}{x,y}11', 'all it says may change') from batchq.worker w;
select t.beat(:'u1'), t.beat(:'u2') \g /dev/null
select is((select count(*) from batchq.worker where worker = 'w'), 2::bigint,
    'F005 two processes of one name are two workers');

-- bounds
select lives_ok(format('select batchq.beat_worker(%L, %L, %L, 0, %L, %L, %L, 0, 0, 0)', :'u1',
    repeat('я', 255), repeat('😀', 255), 'v', array_fill('q'::text, array[1000]),
    array_fill(repeat('k', 255), array[1000])), 'names of 255 characters, 1,000 of them, zeros');
select lives_ok(format('select batchq.beat_worker(%L, ''w'', ''h'', %s, ''v'', ''{}'', ''{}'', %2$s,
    %2$s, %s)', :'u1', 2147483647, 9223372036854775807), 'the largest numbers, empty lists');
create function t.beat_of(argument text, value text) returns text language sql as $$
    select 'select batchq.beat_worker(' || string_agg(format('%s => %L', a.name,
        case when a.name = $1 then $2 else a.value end), ', ') || ')'
    from (values ('worker_id', '00000000-0000-4000-8000-000000000009'), ('worker', 'w'),
        ('host', 'h'), ('pid', '1'), ('version', 'v'), ('queues', '{a}'), ('kinds', '{k}'),
        ('concurrency', '1'), ('running', '0'), ('memory_bytes', '1'), ('stopping', 'false'))
        a(name, value)
$$;
create temporary table bad (argument text, value text, said text);
insert into bad values ('worker_id', null, 'invalid worker_id: null'),
    ('memory_bytes', '-1', 'invalid memory_bytes: ''-1'''),
    ('stopping', null, 'invalid stopping: null');
insert into bad
select a, v, format('invalid %s: %s', a, coalesce(quote_literal(left(v, 80)), 'null'))
from unnest(array['worker', 'host', 'version']) a, unnest(array[null, '', repeat('x', 256)]) v
union all
select a, v, format('invalid %s: %s', a, coalesce(quote_literal(v), 'null'))
from unnest(array['pid', 'concurrency', 'running']) a, unnest(array[null, '-1']) v
union all
select a, x.v, format(x.said, a)
from unnest(array['queues', 'kinds']) a, (values (null, 'invalid %s: null'),
    ('{""}', 'invalid name in %s: '''''), ('{a,NULL}', 'invalid name in %s: null'),
    ('{{a},{b}}', 'array with dimensions [1:2][1:1]'),
    ('[0:0]={a}', 'array with dimensions [0:0]'),
    (array_fill('q'::text, array[1001])::text, 'invalid %s: 1001 names')) x(v, said);
select throws_ok(t.beat_of(b.argument, b.value), 'JQ001', b.said,
    format('%s of %s is refused', b.argument, coalesce(left(b.value, 12), 'null'))) from bad b;
select is((select count(*) from batchq.worker), 2::bigint, 'and nothing is stored of it');

-- a beat is cheap
create function t.updates() returns bigint language sql volatile as $$
    select s.n_tup_upd - s.n_tup_hot_upd from pg_stat_xact_user_tables s
    where s.relid = 'batchq.worker'::regclass
$$;
select t.updates() as before \gset
select t.beat(:'u1', i, i % 2 = 0), t.beat(:'u2', i), t.pass('30 s')
    from generate_series(1, 5) i \g /dev/null
select is(t.updates(), :before::bigint, 'a beat stays in its page and adds no index entry');

-- roles
select t.beat_of('', '') as beat \gset
set local role batchq_worker;
:beat \g /dev/null
reset role;
select is((select count(*) from batchq.worker), 3::bigint, 'F078 the role batchq_worker may call it');
select throws_ok(format('set local role %I; %s', r, :'beat'), '42501', null,
    format('D-7 %s may not', r)) from unnest(array['batchq_producer', 'batchq_operator',
    'batchq_monitor']) r;

select * from finish();
rollback;
