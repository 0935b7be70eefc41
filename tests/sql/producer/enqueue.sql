begin;
select plan(371);
\ir ../clock.psql

-- what a job is by default
select batchq.enqueue('k') as a \gset
select is(j.queue, 'default', 'A-47 A-54 the queue is default') from jobs j where j.id = :a;
select is(j.priority, 0, 'B-24 the priority is 0') from jobs j where j.id = :a;
select is(j.max_attempts, 3, 'A-20 A-53 C-4 max_attempts is 3') from jobs j where j.id = :a;
select is(j.payload, '{}', 'B-22 C-22 the payload is {}') from jobs j where j.id = :a;
select is(j.attempts, 0, 'A-52 B-25 attempts are 0 before the first lease') from jobs j
    where j.id = :a;
select is(j.status || ' ' || j.state, 'pending ready', 'B-23 A-51 a new job is pending, ready')
from jobs j where j.id = :a;
select is(j.created_at, t.now(), 'A-57 B-30 created_at is the database''s time') from jobs j
    where j.id = :a;
select is(j.run_at, t.now(), 'B-29 run_at is now') from jobs j where j.id = :a;
select is(j.available_at, j.run_at, 'A-56 C-5 available_at is run_at') from jobs j where j.id = :a;
select is(j.updated_at, j.created_at, 'A-58 updated_at is created_at at first') from jobs j
    where j.id = :a;
select ok(num_nonnulls(j.dedupe_key, j.locked_by, j.locked_until, j.last_error, j.result, j.timeout,
                       j.started_at, j.finished_at, j.headers, j.progress) = 0,
          'B-27 B-28 what does not apply to a new job is null') from jobs j where j.id = :a;
select is(pg_typeof(batchq.enqueue('k')), 'bigint'::regtype, 'A-48 the id is a bigint');
select ok(batchq.enqueue('k') < batchq.enqueue('k'), 'A-48 ids rise in a session');
select is((select count(distinct batchq.enqueue('k', queue => 'nokey'))
    from generate_series(1, 1000)),
          1000::bigint, 'A-44 a thousand jobs without a key are a thousand jobs');
select is((select count(*) from jobs j where j.queue = 'nokey'), 1000::bigint,
          'A-44 and the view has them all');

-- what is stored
select is((t.of(batchq.enqueue('k', '{"a": {"b": [1, 2.50, "c", null]}}'))).payload,
          '{"a": {"b": [1, 2.50, "c", null]}}', 'A-50 nested JSON comes back as it was');
select is(t.code(format('select batchq.enqueue(''k'', %L)', v)), 'ok',
    'C-22 a payload may be ' || v)
from unnest(array['1', '"x"', '[]', 'true', 'false', '[null]', '""']) v;
select batchq.enqueue('k', '{"id": 1970670598291982290, "f": 0.1, "d": 1.10}') as id \gset
select is(j.payload::text, '{"d": 1.10, "f": 0.1, "id": 1970670598291982290}',
    'F060 no digit of a number is lost')
from jobs j where j.id = :id;
select batchq.enqueue(repeat('ü', 200), queue => 'long') as id \gset
select is(j.type, repeat('ü', 200), 'A-49 a kind of 200 characters survives') from jobs j
    where j.id = :id;
select batchq.enqueue('k', headers => '{"traceparent": "00-1"}', timeout => '90 s',
    max_attempts => 7,
                      priority => -5, dedupe_key => 'd1', queue => 'all') as id \gset
select is(row(j.headers, j.timeout, j.max_attempts, j.priority, j.dedupe_key, j.queue)::text,
          row('{"traceparent": "00-1"}'::jsonb, interval '90 s', 7, -5, 'd1', 'all')::text,
          'A-55 headers, timeout, max_attempts, priority, key and queue are kept') from jobs j
          where j.id = :id;

-- refusals, a value at a time
select throws_ok(format('select batchq.enqueue(%L)', v), 'JQ001', null, d)
from (values (null, 'D-6 a kind of null is refused'), ('', 'D-6 an empty kind is refused'),
             (repeat('k', 256), 'D-6 F022 a kind of 256 characters is refused'),
             (repeat('k', 10000), 'F022 a kind of 10,000 characters is refused')) x(v, d);
select throws_ok(format('select batchq.enqueue(''k'', queue => %L)', v), 'JQ001', null, d)
from (values (null, 'D-6 F064 a queue of null is refused'),
    ('', 'D-6 F064 an empty queue is refused'),
             (repeat('q', 256), 'D-6 a queue of 256 characters is refused'),
             (repeat('q', 10000), 'F022 a queue of 10,000 characters is refused')) x(v, d);
select throws_ok($$ select batchq.enqueue('k', null) $$, 'JQ001', null,
    'B-22 a payload of SQL null is refused');
select throws_ok($$ select batchq.enqueue('k', 'null') $$, 'JQ001', null,
    'B-22 a payload of JSON null is refused');
select throws_ok($$ select batchq.enqueue('k', to_jsonb(repeat('x', 1048577))) $$, 'JQ001', null,
                 'C-22 a payload over 1 MiB is refused');
select lives_ok($$ select batchq.enqueue('k', to_jsonb(repeat('x', 1048000))) $$,
    'C-22 one just under it is taken');
select throws_ok(format('select batchq.enqueue(''k'', priority => %L)', v), 'JQ001', null,
                 format('F066 a priority of %s is refused', coalesce(v, 'null')))
from unnest(array['32768', '-32769', '2147483647', '-2147483648', null]) v;
select lives_ok(format('select batchq.enqueue(''k'', priority => %L, queue => ''p'')', v),
                format('F066 a priority of %s is taken', v))
from unnest(array['32767', '-32768']) v;
select throws_ok(format('select batchq.enqueue(''k'', max_attempts => %L)', v), 'JQ001', null,
                 format('F065 max_attempts of %s is refused', v))
from unnest(array[0, -1, 32768, 2147483647]) v;
select lives_ok('select batchq.enqueue(''k'', max_attempts => 32767)',
    'max_attempts of 32767 is taken');
select throws_ok(format('select batchq.enqueue(''k'', run_at => %L)', v), 'JQ001', null,
                 format('F063 run_at %s is refused', v))
from unnest(array['infinity', '-infinity', '20000-01-01', '4713-01-01 BC',
    '9999-12-31 00:00+00']) v;
select lives_ok(format('select batchq.enqueue(''k'', run_at => %L, queue => ''edge'')', v),
                format('F063 run_at %s is taken', v))
from unnest(array['0001-01-02 00:00+00', '9999-12-30 00:00+00']) v;
select is((select count(*) from batchq.lease('edge', 10)), 1::bigint,
          'F067 run_at far in the past means now, far in the future waits');
select throws_ok(format('select batchq.enqueue(''k'', delay => %L)', v), 'JQ001', null,
                 format('F067 a delay of %s is refused', v))
from unnest(array['10 years 1 s', '-10 years -1 s', '1000000000000 s', '178000000 years']) v;
select is(t.job(batchq.enqueue('k', delay => v::interval)), 'ready:0',
    format('F067 a delay of %s means now', v))
from unnest(array['0', '-5 s', '-10 years']) v;
select is(t.job(batchq.enqueue('k', delay => v::interval, queue => 'later')), 'scheduled:0',
          format('F067 a delay of %s is taken', v))
from unnest(array['1 microsecond', '1 mon', '10 years']) v;
select throws_ok($$ select batchq.enqueue('k', run_at => now(), delay => '1 s') $$, 'JQ001', null,
                 'C-5 run_at and delay together are refused');
select throws_ok(format('select batchq.enqueue(''k'', timeout => %L)', v), 'JQ001', null,
                 format('a timeout of %s is refused', v))
from unnest(array['0', '-1 s', '9 ms', '366 days']) v;
select lives_ok(format('select batchq.enqueue(''k'', timeout => %L)', v),
    format('a timeout of %s is taken', v))
from unnest(array['10 ms', '365 days']) v;
select throws_ok(format('select batchq.enqueue(''k'', dedupe_key => %L)', v), 'JQ001', null, d)
from (values ('', 'D-6 an empty dedupe key is refused'),
             (repeat('k', 1025), 'D-6 a dedupe key of 1,025 bytes is refused'),
             (repeat('ü', 513), 'D-6 a dedupe key is measured in bytes'),
             ((select string_agg(md5(i::text), '') from generate_series(1, 320) i),
              'F022 a dedupe key of 10,000 random characters is refused')) x(v, d);
select
    lives_ok(format('select batchq.enqueue(repeat(%L, 255), queue => repeat(%1$L, 255), dedupe_key => repeat(%1$L, 256))',
    '𝄞'),
                'F022 the longest names of the widest characters fit the indexes');
select throws_ok(format('select batchq.enqueue(''k'', dedupe_key => ''x'', dedupe_scope => %L)', v),
    'JQ001', null,
                 format('a dedupe_scope of %s is refused', v))
from unnest(array['', 'Pending', 'queue']) v;
select throws_ok(format('select batchq.enqueue(''k'', dedupe_key => ''x'', on_duplicate => %L)', v),
    'JQ001', null,
                 format('on_duplicate %s is refused', v))
from unnest(array['', 'raise', 'REPLACE']) v;
select throws_ok(format('select batchq.enqueue(''k'', dedupe_key => ''x'', dedupe_for => %L)', v),
    'JQ001', null,
                 format('a dedupe_for of %s is refused', v))
from unnest(array['-1 s', '11 years']) v;
select throws_ok(format('select batchq.enqueue(''k'', %s)', v), 'JQ001', null,
    format('%s without a dedupe_key is refused', v))
from unnest(array['dedupe_scope => ''pending''', 'dedupe_for => ''1 s''',
    'on_duplicate => ''return''']) v;
select throws_ok(format('select batchq.enqueue(''k'', %s)', v), 'JQ001', null,
    format('F068 %s is refused', v))
from unnest(array['backoff => ''linear''', 'backoff => ''''', 'backoff_base => ''-1 s''',
    'backoff_base => ''366 days''',
                  'backoff_factor => 0.99', 'backoff_factor => 101', 'backoff_factor => ''NaN''',
                  'backoff_factor => ''Infinity''', 'backoff_factor => -2',
                  'backoff_cap => ''-1 s''',
                  'backoff_cap => ''366 days''', 'backoff_jitter => ''some''']) v;
select throws_ok(format('select batchq.enqueue(''k'', headers => %L)', v), 'JQ001', null,
    format('headers of %s are refused', left(v, 10)))
from unnest(array['[]', '"x"', '1', 'null', (jsonb_build_object('h', repeat('x', 65537)))::text]) v;
select is(t.message($$ select batchq.enqueue('k', priority => 40000) $$),
          'invalid priority: ''40000''', 'the message names the value');
select is((select count(*) from jobs where queue in ('', 'x')), 0::bigint,
    'what was refused left nothing behind');

-- odd names (F064) and equality by value (F023)
create temporary table odd (name text);
insert into odd values ('My-Queue'), ('my-queue'), ('a"b'), ('a'';drop table x;--'),
    (repeat('é', 63)),
    (repeat('x', 63) || '1'), (repeat('x', 63) || '2'), (' '), ('  '), (E'new\nline'), ('%s'),
    ('/'), ('a/b'),
    ('null'), ('$1'), (E'\\'), ('a '), ('é'), (U&'e\0301');
select batchq.enqueue('k', to_jsonb(o.name), o.name) from odd o \g /dev/null
select is(l.payload, to_jsonb(o.name), format('F064 queue %L has its own job', o.name))
from odd o left join lateral batchq.lease(o.name, 10) l on true;
select is((select count(distinct batchq.enqueue('k', queue => 'keys', dedupe_key => o.name))
    from odd o),
          (select count(*) from odd),
          'F023 keys that differ only in case, blanks or Unicode form do not merge');
select is((select count(distinct batchq.enqueue('k', queue => 'keys', dedupe_key => v))
    from unnest(array['1', '1.0', '01', '1 ', '1e0']) v),
          5::bigint, 'F023 keys are texts, not numbers');
select isnt(batchq.enqueue('k', queue => 'hash1', dedupe_key => a.k),
    batchq.enqueue('k', queue => 'hash1', dedupe_key => b.k),
            'F023 two keys of one hash do not merge')
from (select min(k) as x, max(k) as y from (select 'k' || i as k
    from generate_series(1, 160000) i) s
      group by hashtext(k) having count(*) > 1 limit 1) p, lateral (select p.x as k) a,
      lateral (select p.y as k) b;

-- time
select batchq.enqueue('k', queue => 'run', run_at => t.now() + interval '3 s') as later,
       batchq.enqueue('k', queue => 'run', delay => '3 s') as delayed \gset
select is(j.available_at, t.now() + interval '3 s', 'A-56 A-80 available_at shows when') from jobs j
    where j.id = :later;
select is(t.job(:later) || ' ' || t.job(:delayed), 'scheduled:0 scheduled:0',
    'A-80 a job of later is scheduled');
select is(t.take('run', 10), null, 'A-80 A-56 and not handed out before its time');
select t.pass('2.999 s') \g /dev/null
select is(t.take('run', 10), null, 'A-80 nor a millisecond before it');
select t.pass('1 ms') \g /dev/null
select is(t.take('run', 10), :later || ' ' || :delayed,
    'A-80 C-17 and is handed out at its time, in order of id');
select is(t.job(batchq.enqueue('k', run_at => t.now())), 'ready:0', 'run_at now is ready');
select is(t.job(batchq.enqueue('k', run_at => t.now() - interval '1 year')), 'ready:0',
          'F067 run_at a year ago is ready');

-- dedupe: who holds the key, in which state, under which scope and mode
create temporary table dedupe_case as
select row_number() over () as case, 'dq' || row_number() over () as queue, h.state, s.scope,
    m.mode, w.held
from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled',
    'purged']) h(state),
     unnest(array[null, 'unfinished', 'pending']) s(scope),
     unnest(array[null, 'return', 'replace']) m(mode),
     unnest(array[false, true]) w(held);
alter table dedupe_case add first_id bigint, add second_id bigint, add third_id bigint;
update dedupe_case set first_id = t.job_in(state, queue, 'K', scope,
    case when held then interval '1 h' end);
update dedupe_case set second_id = batchq.enqueue('k', '{"n": 2}', queue, dedupe_key => 'K',
    dedupe_scope => scope, on_duplicate => mode);
select is(c.second_id = c.first_id,
          c.state in ('ready', 'scheduled')
          or (c.state = 'leased' and coalesce(c.scope, 'unfinished') = 'unfinished')
          or (c.held and c.state <> 'purged'),
          format('C-6 A-41 A-42 F024 F025 holder %s, scope %s, on_duplicate %s, %s its window: %s',
          c.state, coalesce(c.scope, 'none'),
                 coalesce(c.mode, 'none'), case when c.held then 'inside' else 'without' end,
                 case when c.second_id = c.first_id then 'the first job is returned'
                 else 'a new job is made' end))
from dedupe_case c order by c.case;
select is(j.payload ->> 'n', case when c.mode = 'replace' and c.state in ('ready', 'scheduled')
    then '2' else '1' end,
          format('C-6 F024 holder %s, on_duplicate %s: the first job''s payload is %s', c.state,
          coalesce(c.mode, 'none'), j.payload ->> 'n'))
from dedupe_case c join jobs j on j.id = c.first_id where c.scope is null and not c.held
    order by c.case;
select is(t.job(c.first_id), case when c.state = 'scheduled' then 'ready:0' else 'ready:0' end,
          format('C-6 a %s job that was replaced without a time is ready', c.state))
from dedupe_case c where c.mode = 'replace' and c.state in ('ready', 'scheduled')
    and c.scope is null and not c.held;
select t.pass('61 min') \g /dev/null
update dedupe_case set third_id = batchq.enqueue('k', '{"n": 3}', queue, dedupe_key => 'K',
    dedupe_scope => scope)
where held;
select is(c.third_id in (c.first_id, c.second_id), c.state in ('ready', 'scheduled', 'purged')
                                                    or (c.state = 'leased' and coalesce(c.scope,
                                                    'unfinished') = 'unfinished'),
          format('C-6 after dedupe_for a holder that is %s, scope %s, %s the key', c.state,
          coalesce(c.scope, 'none'),
                 case when c.third_id in (c.first_id, c.second_id) then 'keeps'
                 else 'has lost' end))
from dedupe_case c where c.held and c.mode is null order by c.case;

select is((select count(distinct batchq.enqueue('k', jsonb_build_object('n', i), 'five',
    dedupe_key => 'K', dedupe_scope => 'pending',
                                                on_duplicate => m.mode))
                                                from generate_series(1, 5) i), 1::bigint,
          format('F024 five follow-ups with on_duplicate %s are one job', m.mode))
from (values ('return')) m(mode), lateral (select t.job_in('leased', 'five', 'K', 'pending')) h;
select is((select j.payload from jobs j where j.queue = 'five' and j.state = 'ready'),
    '{"n": 1}'::jsonb, 'F024 with the first payload');
select is((select count(distinct batchq.enqueue('k', jsonb_build_object('n', i), 'five2',
    dedupe_key => 'K', dedupe_scope => 'pending',
                                                on_duplicate => 'replace'))
                                                from generate_series(1, 5) i), 1::bigint,
          'F024 five follow-ups with on_duplicate replace are one job')
from (select t.job_in('leased', 'five2', 'K', 'pending')) h;
select is((select j.payload from jobs j where j.queue = 'five2' and j.state = 'ready'),
    '{"n": 5}'::jsonb, 'F024 with the last payload');
select isnt(batchq.enqueue('k', queue => 'qa', dedupe_key => 'K'),
    batchq.enqueue('k', queue => 'qb', dedupe_key => 'K'),
            'C-6 a key is unique in its queue only');

-- replacing
select batchq.enqueue('k', '{"n": 1}', 'place', dedupe_key => 'K', headers => '{"h": 1}') as a,
       batchq.enqueue('k', queue => 'place') as b \gset
select batchq.enqueue('k', '{"n": 2}', 'place', dedupe_key => 'K',
    on_duplicate => 'replace') \g /dev/null
select is(j.payload::text || coalesce(j.headers::text, ' no headers'), '{"n": 2} no headers',
    'C-6 replace takes the new payload and headers')
from jobs j where j.id = :a;
select is(t.take('place', 2), :a || ' ' || :b, 'C-6 a job that was replaced keeps its place');
select batchq.enqueue('first', queue => 'same', dedupe_key => 'K', priority => 3,
    max_attempts => 4) as a \gset
select batchq.enqueue('second', queue => 'same', dedupe_key => 'K', priority => 9,
    max_attempts => 5, on_duplicate => 'replace') \g /dev/null
select is(concat_ws(' ', (t.of(:a)).kind, (t.of(:a)).priority, (t.of(:a)).max_attempts),
    'first 3 4', 'C-6 replace leaves kind, priority and max_attempts as they were');
select throws_ok($$ select batchq.enqueue('k', null, 'same', dedupe_key => 'K',
    on_duplicate => 'replace') $$, 'JQ001', null,
    'a bad value is refused also where it would replace');
select is((t.of(:a)).state, 'ready', 'and leaves the first job alone');
select batchq.enqueue('k', queue => 'when', dedupe_key => 'K') as a \gset
select batchq.enqueue('k', queue => 'when', dedupe_key => 'K', on_duplicate => 'replace',
    delay => '10 s') \g /dev/null
select is(t.job(:a) || ' ' || t.wait(:a), 'scheduled:0 00:00:10',
    'C-6 replace with a time puts a ready job off');
select batchq.enqueue('k', queue => 'when', dedupe_key => 'K', on_duplicate => 'replace',
    delay => '20 s') \g /dev/null
select is(t.wait(:a), '20 s', 'C-6 and moves a scheduled one');
select is(j.run_at, t.now() + interval '20 s', 'C-6 the view shows the new time') from jobs j
    where j.id = :a;
select batchq.enqueue('k', queue => 'when', dedupe_key => 'K',
    on_duplicate => 'replace') \g /dev/null
select is(t.take('when'), :'a', 'C-6 replace without a time makes a scheduled job ready');
select batchq.enqueue('k', '{"n": 1}', 'retry', dedupe_key => 'K', backoff => 'fixed') as a \gset
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('retry') l \g /dev/null
select batchq.enqueue('k', '{"n": 2}', 'retry', dedupe_key => 'K',
    on_duplicate => 'replace') \g /dev/null
select is(t.job(:a), 'ready:1', 'C-6 a retry that is replaced is ready, its attempts kept');
select batchq.enqueue('k', '{"n": 3}', 'retry', dedupe_key => 'K',
    on_duplicate => 'replace') \g /dev/null
select is((select l.payload from batchq.lease('retry') l), '{"n": 3}'::jsonb,
    'C-6 and may be replaced again in its new place');

-- defaults of the queue
select batchq.set_queue('q5', max_attempts => 5, timeout => '7 s') \g /dev/null
select is((t.of(batchq.enqueue('k', queue => 'q5'))).max_attempts, 5,
          'B-26 C-4 the queue''s max_attempts count');
select is((t.of(batchq.enqueue('k', queue => 'q5', max_attempts => 2))).max_attempts, 2,
          'B-26 C-4 the job''s go before them');
select is((t.of(batchq.enqueue('k', queue => 'q5'))).timeout, '7 s', 'the queue''s timeout counts');
select is((t.of(batchq.enqueue('k', queue => 'q5', timeout => '8 s'))).timeout, '8 s',
          'the job''s goes before it');

-- the caller's transaction
savepoint before;
select batchq.enqueue('k', queue => 'gone', dedupe_key => 'K', priority => 3) as gone \gset
rollback to before;
select is((select count(*) from jobs where id = :gone), 0::bigint,
    'B-13 rolled back, the job never was');
select isnt(batchq.enqueue('k', queue => 'gone', dedupe_key => 'K'), :gone::bigint,
    'B-13 and its key is free');

-- the session's settings change nothing
set local timezone = 'Asia/Kathmandu';
set local datestyle = 'German, DMY';
set local intervalstyle = 'sql_standard';
set local search_path = pg_temp;
create temporary table job (id bigint);
create temporary table ready (pos bigint);
select batchq.enqueue('k', queue => 'env', run_at => t.now() + interval '1 h', max_attempts => 2,
    timeout => '1 s',
                      dedupe_key => 'E', dedupe_for => '1 h', priority => 2) as env \gset
set local search_path = batchq, pgtap, public;
reset timezone; reset datestyle; reset intervalstyle;
select is(t.job(:env) || ' ' || t.wait(:env), 'scheduled:0 01:00:00',
    'neither TimeZone, DateStyle, IntervalStyle nor temporary tables mislead it');

-- a day is 24 hours wherever the session is: in Berlin 29 March 2026 has 23
select t.set_clock('2026-03-28 12:00:00+00') \g /dev/null
set local timezone = 'Europe/Berlin';
select batchq.enqueue('k', delay => '1 day') as day \gset
select job_id as day_many from batchq.enqueue_many('[{"kind": "k", "delay": "1 day"}]') \gset
select job_id as zoneless
    from batchq.enqueue_many('[{"kind": "k", "run_at": "2026-04-01T00:00:00"}]') \gset
select batchq.enqueue('k', queue => 'day', timeout => '1 day', backoff => 'fixed',
    backoff_base => '1 day') as retried \gset
select l.job_id as l_job, l.lease_id as l, l.lease_until as till
    from batchq.lease('day', lease_for => '1 day') l \gset
select l.deadline as deadline from batchq.leased l where l.job_id = :l_job \gset
select batchq.fail(:l_job, :l, 'e', retry_in => '1 day') \g /dev/null
reset timezone;
select is((t.of(:day)).run_at - t.now(), '24:00:00',
    'a delay of a day is the same in every TimeZone');
select is((t.of(:day_many)).run_at - t.now(), '24:00:00', 'so it is for enqueue_many');
select is((t.of(:zoneless)).run_at, '2026-04-01 00:00:00+00',
    'a time without a zone is one of UTC');
select is(:'till'::timestamptz - t.now(), '24:00:00', 'so is a lease of a day');
select is(:'deadline'::timestamptz - t.now(), '24:00:00', 'so is a timeout');
select is((t.of(:retried)).run_at - t.now(), '24:00:00', 'so is a retry in a day');

-- a value that comes compressed from a table is measured by what it is
create temporary table big as select to_jsonb(repeat('x', 5000000)) as payload;
select throws_ok($$ select batchq.enqueue('k', b.payload) from big b $$, 'JQ001', null,
    'C-22 a payload over 1 MiB is refused, also one stored compressed');

-- groups
select batchq.enqueue('k', queue => 'kept', group_key => 'g') as a \gset
select is(t.job(:a) || ' ' || (t.of(:a)).group_key, 'ready:0 g',
    'a group_key is only kept where the queue does not limit its groups');
select batchq.set_queue('g1', group_limit => 1) \g /dev/null
select batchq.set_queue('g2', group_limit => 2) \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g', priority => 0) as a,
    batchq.enqueue('k', queue => 'g1', group_key => 'g', priority => 9) as b,
    batchq.enqueue('k', queue => 'g1') as c, batchq.enqueue('k', queue => 'g1', group_key => 'h',
    delay => '5 s') as d \gset
select is(t.job(:a) || ' ' || t.job(:b), 'blocked:0 blocked:0',
    'a job of a group waits in blocked');
select is((t.of(:a)).status, 'pending', 'which is pending');
select is(t.job(:c), 'ready:0', 'one without a group does not');
select is(t.job(:d), 'scheduled:0', 'one that is not due is scheduled');
select is(t.take('g1', 10), :c || ' ' || :a,
    'group_limit 1: the first in the order of enqueue, whatever its priority');
select is(t.job(:b), 'blocked:0', 'the second waits for it');
select t.pass('5 s') \g /dev/null
select is(t.take('g1', 10), :'d', 'a scheduled one gets its turn when it is due');
select batchq.enqueue('k', queue => 'g2', group_key => 'g', priority => p) as p
    from unnest(array[-1, 5, 0, 5]) p \g /dev/null
select is((select string_agg(l.priority::text, ' ') from batchq.lease('g2', 10) l), '5 5',
    'group_limit above 1: those of high priority first');

-- groups and keys
select batchq.enqueue('k', '{"n": 1}', 'g1', group_key => 'g', dedupe_key => 'K') as a \gset
select is(batchq.enqueue('k', '{"n": 2}', 'g1', group_key => 'other', dedupe_key => 'K'),
    :a::bigint, 'a blocked job holds its dedupe key, whatever the group');
select is(batchq.enqueue('k', '{"n": 3}', 'g1', dedupe_key => 'K', dedupe_scope => 'pending',
    on_duplicate => 'replace'), :a::bigint, 'also as a pending one');
select is((t.of(:a)).payload, '{"n": 3}', 'on_duplicate replace: it takes the new payload');
select is(t.job(:a), 'blocked:0', 'and its old place');
select batchq.enqueue('k', queue => 'g1', dedupe_key => 'K', delay => '10 s',
    on_duplicate => 'replace') \g /dev/null
select is(t.job(:a), 'scheduled:0', 'or the new time');
select batchq.enqueue('k', queue => 'g1', dedupe_key => 'K', on_duplicate => 'replace') \g /dev/null
select is(t.job(:a), 'blocked:0', 'and back');
select batchq.cancel(:a) \g /dev/null
select isnt(batchq.enqueue('k', queue => 'g1', group_key => 'g', dedupe_key => 'K'), :a::bigint,
    'cancelled in blocked, it gives its key back');

-- the size limit
select batchq.set_queue('full', max_depth => 2) \g /dev/null
select batchq.enqueue('k', queue => 'full'), batchq.enqueue('k', queue => 'full',
    dedupe_key => 'K') as a \gset
select throws_ok($$ select batchq.enqueue('k', queue => 'full') $$, 'JQ006',
    'queue ''full'' is full: 2 jobs wait', 'D-3 a full queue refuses one more');
select is(t.code($$ select batchq.enqueue('k', queue => 'full', dedupe_key => 'K') $$), 'ok',
    'a duplicate is none');
select is(t.code($$ select batchq.enqueue('k', queue => 'full', delay => '1 s') $$), 'ok',
    'one that is not due does not count');
select t.take('full') \g /dev/null
select is(t.code($$ select batchq.enqueue('k', queue => 'full') $$), 'ok',
    'nor do running ones');
select batchq.set_queue('full', group_limit => 1) \g /dev/null
select batchq.cancel(:a) \g /dev/null
select batchq.enqueue('k', queue => 'full', group_key => 'g') \g /dev/null
select is(t.code($$ select batchq.enqueue('k', queue => 'full') $$), 'JQ006', 'blocked ones do');
select batchq.set_queue('full', on_full => 'delay') \g /dev/null
select ok(bool_and(t.wait(e) between '30 s' and '90 s') and count(distinct t.wait(e)) > 10,
    'on_full delay: it is put off by 30 to 90 s, each by its own')
    from (select batchq.enqueue('k', queue => 'full') as e from generate_series(1, 20)) x;
select is((t.of(e)).run_at, t.now() + '9 s', 'one that is not due keeps its time')
    from batchq.enqueue('k', queue => 'full', delay => '9 s') e;

-- a job that has its turn already, replaced
select batchq.set_queue('turn', group_limit => 1, group_rate => 1, group_period => '10 s')
    \g /dev/null
select batchq.enqueue('k', queue => 'turn', group_key => 'g', dedupe_key => 'A') as a,
    batchq.enqueue('k', queue => 'turn', group_key => 'g', dedupe_key => 'B') as b \gset
select batchq._admit('turn', 0, 10) \g /dev/null
select is(t.job(:a), 'ready:0', 'a job that has its turn is ready');
select batchq.enqueue('k', queue => 'turn', dedupe_key => 'A', delay => '5 s',
    on_duplicate => 'replace') \g /dev/null
select is(t.job(:a), 'scheduled:0', 'replaced for later it waits');
select is(t.take('turn'), :'b', 'and lets the next one have its turn');
select batchq.complete(:b, t.lease_of(:b)) \g /dev/null
select t.pass('9.9 s') \g /dev/null
select is(t.take('turn'), null, 'the start of which counts');
select t.pass('0.1 s') \g /dev/null
select is(t.take('turn'), :'a', 'then it has its own');
select batchq.fail(:a, t.lease_of(:a), 'e', retry_in => '60 s') \g /dev/null
select batchq.enqueue('k', queue => 'turn', dedupe_key => 'A', on_duplicate => 'replace')
    \g /dev/null
select is(t.take('turn'), null, 'a retry that is replaced for now needs another start');
select t.pass('10 s') \g /dev/null
select is(t.take('turn') || ' ' || t.seats('turn'), :a || ' g:1', 'and keeps its seat till then');

-- bounds of group_key
select throws_ok(format('select batchq.enqueue(''k'', group_key => %L)', v), 'JQ001', null,
    format('F022 group_key %s… is refused', left(v, 3))) from unnest(array['', repeat('g', 256),
    repeat('g', 10000)]) v;
select is((t.of(e)).group_key, repeat('𝄞', 255), 'F022 one of 255 characters is taken')
    from batchq.enqueue('k', group_key => repeat('𝄞', 255)) e;
select batchq.set_queue('named', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'named', group_key => repeat('𝄞', 255)) as a \gset
select is(t.take('named'), :'a', 'F022 and is a group like others');

select * from finish();
rollback;
