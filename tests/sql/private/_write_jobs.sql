begin;
select plan(19);
\ir ../clock.psql

insert into batchq.jobs (type, payload) values ('t', '{"message": "hi", "deep": {"a": [1, null]}}');
select is(j.kind, 't', 'A-49 type is kind') from batchq.jobs j where j.type = 't';
select is(j.payload, '{"message": "hi", "deep": {"a": [1, null]}}', 'A-50 the payload comes back')
from batchq.jobs j where j.type = 't';
select is(j.status || j.attempts || j.max_attempts || j.queue || j.priority, 'pending03default0',
    'A-53 the rest has the defaults of enqueue') from batchq.jobs j where j.type = 't';
select is((select l.kind from batchq.lease() l), 't', 'it can be leased');

insert into batchq.jobs (kind, queue, priority, max_attempts, available_at, dedupe_key, headers)
values ('full', 'q', 7, 9, '2999-01-01 00:00:00+00', 'k', '{"h": 1}');
select is(j.queue || j.priority || j.max_attempts || j.dedupe_key || (j.headers ->> 'h'), 'q79k1',
    'columns are the parameters of enqueue') from batchq.jobs j where j.kind = 'full';
select is(j.run_at, '2999-01-01 00:00:00+00'::timestamptz, 'available_at is run_at')
from batchq.jobs j where j.kind = 'full';
select is(j.state, 'scheduled', 'a later job waits') from batchq.jobs j where j.kind = 'full';

insert into batchq.jobs (kind, queue, dedupe_key) values ('full', 'q', 'k');
select is(count(*), 1::bigint, 'A-41 a key that is held makes no second job')
from batchq.jobs j where j.kind = 'full';

select throws_ok($$ insert into batchq.jobs (type, kind) values ('a', 'b') $$, 'JQ001', null,
    'type and kind must agree');
select throws_ok($$ insert into batchq.jobs (kind, run_at, available_at)
    values ('a', '2030-01-01', '2031-01-01') $$, 'JQ001', null, 'so must run_at and available_at');
select throws_ok(format('insert into batchq.jobs (kind, status) values (%L, %L)', 'a', s), 'JQ001',
    null, format('A-51 a new job cannot be %s', s))
from unnest(array['running', 'completed', 'failed', 'odd']) s;
select throws_ok($$ insert into batchq.jobs (kind, attempts) values ('a', 3) $$, 'JQ001', null,
    'what batchq counts cannot be given');
select throws_ok($$ insert into batchq.jobs (kind) values ('') $$, 'JQ001', null,
    'the bounds of enqueue hold');
select throws_ok($$ insert into batchq.jobs (payload) values ('{}') $$, 'JQ001', null,
    'a kind is needed');
select throws_ok($$ update batchq.jobs set priority = 1 $$, 'JQ005', null,
    'a job is not updated by UPDATE');
select throws_ok($$ delete from batchq.jobs $$, 'JQ005', null, 'nor deleted by DELETE');

select * from finish();
rollback;
