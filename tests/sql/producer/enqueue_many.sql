begin;
select plan(265);
\ir ../clock.psql

-- the answer and the order
create temporary table made as
select * from batchq.enqueue_many((
    select jsonb_agg(jsonb_build_object('kind', 'k', 'queue', 'bulk', 'payload', i) order by i)
    from generate_series(1, 1000) i));
select is(count(*), 1000::bigint, 'A-84 a thousand jobs give a thousand answers') from made;
select is(count(*), 1000::bigint, 'A-84 and are a thousand jobs') from jobs where queue = 'bulk';
select ok(bool_and(m.ordinal::text::jsonb = j.payload),
    'A-84 F016 ordinal is the place in the input')
from made m join jobs j on j.id = m.job_id;
select ok(bool_and(n.ok), 'A-84 the answers come in input order')
from (select ordinal = row_number() over () as ok from made) n;
select ok(bool_and(n.ok), 'A-48 and ids rise with it')
from (select coalesce(job_id > lag(job_id) over (order by ordinal), true) as ok from made) n;
select ok(bool_and(is_new), 'all are new') from made;
select is((select string_agg(l.payload::text, ' ') from batchq.lease('bulk', 5) l), '1 2 3 4 5',
          'jobs of one lane are leased in the order of the array');
select is_empty($$ select * from batchq.enqueue_many('[]') $$, 'F065 an empty array is no job');

-- what a job is by default
select job_id as a from batchq.enqueue_many('[{"kind": "k", "queue": null, "priority": null}]')
    \gset
select is(row(j.queue, j.priority, j.payload, j.max_attempts, j.status, j.created_at,
    j.run_at)::text,
          row('default', 0, '{}'::jsonb, 3, 'pending', t.now(), t.now())::text,
          'A-47 A-54 B-22 B-24 the defaults are those of enqueue, and null means not given')
from jobs j where j.id = :a;
select batchq.set_queue('q5', max_attempts => 5, timeout => '7 s') \g /dev/null
select is(string_agg((t.of(e.job_id)).max_attempts || ' ' || (t.of(e.job_id)).timeout, ', '
                     order by e.ordinal), '5 00:00:07, 2 00:00:08',
          'B-26 C-4 the queue''s settings count, the job''s go before them')
from batchq.enqueue_many('[{"kind": "k", "queue": "q5"},
                           {"kind": "k", "queue": "q5", "max_attempts": 2, "timeout": 8}]') e;

-- every field arrives
select job_id as a from batchq.enqueue_many('[{"kind": "k", "payload": [1], "queue": "all",
    "priority": -7, "delay": "5 min", "max_attempts": 9, "timeout": 1.5, "dedupe_key": "D",
    "dedupe_scope": "pending", "dedupe_for": 60, "on_duplicate": "return", "backoff": "fixed",
    "backoff_base": 3, "backoff_factor": 1.5, "backoff_cap": "1 h", "backoff_jitter": "full",
    "headers": {"h": "v"}}]') \gset
select is(row(j.kind, j.payload, j.queue, j.priority, t.wait(j.id), j.max_attempts, j.timeout,
              j.dedupe_key, j.headers)::text,
          row('k', '[1]'::jsonb, 'all', -7, interval '5 min', 9, interval '1.5 s', 'D',
              '{"h": "v"}'::jsonb)::text,
          'intervals are text or seconds, and every field is kept') from jobs j where j.id = :a;
select is(row(j.backoff, j.backoff_base, j.backoff_factor, j.backoff_cap, j.backoff_jitter)::text,
          row('fixed', interval '3 s', 1.5, interval '1 h', 'full')::text, 'C-1 so is the backoff')
from batchq.job j where j.id = :a;
select is(d.held_until, t.now() + interval '60 s', 'C-6 and the key''s window')
from batchq.dedupe d where d.queue = 'all';
select is(t.wait(job_id), '-100000 s'::interval + '110000 s', 'run_at is a time with a zone')
from batchq.enqueue_many(jsonb_build_array(jsonb_build_object(
    'kind', 'k', 'run_at', to_char((t.now() + interval '10000 s') at time zone 'UTC',
                                   'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))));
select job_id as a from batchq.enqueue_many('[{"kind": "k",
    "payload": {"id": 1970670598291982290, "f": 0.1, "d": 1.10}}]') \gset
select is(j.payload::text, '{"d": 1.10, "f": 0.1, "id": 1970670598291982290}',
          'F060 no digit of a number is lost') from jobs j where j.id = :a;

-- refusals: the message names the place, nothing is stored
select throws_ok(format('select * from batchq.enqueue_many(%L)', v), 'JQ001', null, d)
from (values (null, 'F065 null is refused'), ('{}', 'an object is refused'),
    ('1', 'a number is refused'),
             ('null', 'JSON null is refused'), ('"x"', 'a text is refused')) x(v, d);
select throws_ok(
    format('select * from batchq.enqueue_many(%L)', '[{"kind": "k"}, ' || v || ']'), 'JQ001', null,
    format('%s is refused', left(v, 60)))
from unnest(array['1', '"x"', 'null', '[]', '[1]', '[{"kind": "k"}]', '[[]]', '{}',
    '{"kind": null}', '{"kind": ""}',
    '{"kind": "k", "typo": 1}', '{"kind": "k", "Kind": "k"}', '{"kind": "k", "payload": null}',
    '{"kind": "k", "queue": ""}', '{"kind": "k", "priority": 32768}',
    '{"kind": "k", "priority": 2147483648}',
    '{"kind": "k", "priority": -2147483649}', '{"kind": "k", "priority": 1.5}',
    '{"kind": "k", "priority": "high"}',
    '{"kind": "k", "priority": true}', '{"kind": "k", "priority": {}}',
    '{"kind": "k", "priority": []}',
    '{"kind": "k", "max_attempts": 0}', '{"kind": "k", "max_attempts": -1}',
    '{"kind": "k", "max_attempts": 1e10}',
    '{"kind": "k", "run_at": "infinity"}', '{"kind": "k", "run_at": "-infinity"}',
    '{"kind": "k", "run_at": "20000-01-01Z"}',
    '{"kind": "k", "run_at": "300000-01-01Z"}', '{"kind": "k", "run_at": "tomorrow or so"}',
    '{"kind": "k", "run_at": 5}',
    '{"kind": "k", "run_at": "2020-02-30T00:00:00Z"}',
    '{"kind": "k", "run_at": "2030-01-01T00:00:00 Mars/Base"}',
    '{"kind": "k", "run_at": "2030-01-01T00:00:00Z", "delay": 1}', '{"kind": "k", "delay": "soon"}',
    '{"kind": "k", "delay": 1e12}',
    '{"kind": "k", "delay": 1e30}', '{"kind": "k", "delay": {}}', '{"kind": "k", "delay": true}',
    '{"kind": "k", "timeout": 0}',
    '{"kind": "k", "timeout": -1}', '{"kind": "k", "dedupe_key": ""}',
    '{"kind": "k", "dedupe_scope": "pending"}',
    '{"kind": "k", "dedupe_key": "x", "dedupe_scope": "all"}',
    '{"kind": "k", "dedupe_key": "x", "on_duplicate": "fail"}',
    '{"kind": "k", "dedupe_key": "x", "dedupe_for": -1}',
    '{"kind": "k", "dedupe_key": "x", "dedupe_for": "1000000 years"}',
    '{"kind": "k", "dedupe_key": "x", "dedupe_for": "170000000 years"}',
    '{"kind": "k", "backoff": "linear"}', '{"kind": "k", "backoff_base": -1}',
    '{"kind": "k", "backoff_factor": 0}',
    '{"kind": "k", "backoff_factor": "NaN"}', '{"kind": "k", "backoff_factor": 1e400}',
    '{"kind": "k", "backoff_cap": "400 days"}',
    '{"kind": "k", "backoff_jitter": 1}', '{"kind": "k", "headers": []}',
    '{"kind": "k", "headers": 1}',
    '{"kind": "k", "queue": "' || repeat('q', 256) || '"}',
    '{"kind": "' || repeat('k', 256) || '"}']) v;
select throws_ok(
    format('select * from batchq.enqueue_many(%L)', jsonb_build_array(v)), 'JQ001', null, d)
from (values
    (jsonb_build_object('kind', 'k', 'dedupe_key',
    (select string_agg(md5(i::text), '') from generate_series(1, 320) i)),
     'F022 a dedupe key of 10,000 random characters is refused'),
    (jsonb_build_object('kind', 'k', 'dedupe_key', 'x', 'queue',
    (select string_agg(md5(i::text), '') from generate_series(1, 320) i)),
     'F022 a queue of 10,000 random characters is refused, with a key as well'),
    (jsonb_build_object('kind', 'k', 'payload', repeat('x', 1048577)),
    'C-22 a payload over 1 MiB is refused'),
    (jsonb_build_object('kind', 'k', 'headers', jsonb_build_object('h', repeat('x', 65537))),
    'headers over 64 KiB are refused')) x(v, d);
select is(t.message($$ select *
    from batchq.enqueue_many('[{"kind": "k"}, {"kind": "k", "priority": 40000}]') $$),
          'invalid priority: ''40000'' (job 2)', 'the message names the value and the job');
select is(t.message($$ select *
    from batchq.enqueue_many('[{"kind": "k"}, {"kind": "k"}, {"kind": "k", "delay": "soon"}]') $$),
          'invalid input syntax for type interval: "soon" (job 3)',
          'also for a value of the wrong type');
select is(t.message($$ select * from batchq.enqueue_many('[{"kind": "k", "typo": 1}]') $$),
          'unknown field: ''typo'' (job 1)', 'and for an unknown field');
select throws_ok($$ select batchq.enqueue_many((select jsonb_agg('{"kind": "k"}'::jsonb)
    from generate_series(1, 100001))) $$,
                 'JQ001', null, 'F052 more than 100,000 jobs are refused');
select
    t.code($$ select
    batchq.enqueue_many('[{"kind": "k", "queue": "none", "dedupe_key": "K", "delay": 5}, {"kind": ""}]')
    $$) \g /dev/null
select is((select count(*) from jobs where queue = 'none') + (select count(*) from batchq.dedupe
    where queue = 'none'), 0::bigint,
          'A-84 one bad job, and nothing is stored');

-- dedupe: with what is there, and inside the batch
create temporary table dedupe_case as
select row_number() over () as case, 'dq' || row_number() over () as queue, h.state, s.scope,
    m.mode, w.held
from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled',
    'purged']) h(state),
     unnest(array[null, 'unfinished', 'pending']) s(scope),
     unnest(array[null, 'return', 'replace']) m(mode),
     unnest(array[false, true]) w(held);
alter table dedupe_case add first_id bigint, add second_id bigint, add is_new boolean;
update dedupe_case set first_id = t.job_in(state, queue, 'K', scope,
    case when held then interval '1 h' end);
update dedupe_case c set second_id = e.job_id, is_new = e.is_new
from batchq.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'k', 'payload',
    '{"n": 2}'::jsonb, 'queue', d.queue, 'dedupe_key', 'K',
                                                              'dedupe_scope', d.scope,
                                                              'on_duplicate', d.mode)
                                                              order by d.case)
                          from dedupe_case d)) e
where e.ordinal = c.case;
select is(row(c.second_id = c.first_id, not c.is_new)::text, row(x.hit, x.hit)::text,
          format('C-6 A-41 A-42 F025 holder %s, scope %s, on_duplicate %s, %s its window: %s',
          c.state, coalesce(c.scope, 'none'),
                 coalesce(c.mode, 'none'), case when c.held then 'inside' else 'without' end,
                 case when x.hit then 'the first job is returned' else 'a new job is made' end))
from dedupe_case c, lateral (select c.state in ('ready', 'scheduled')
                                    or (c.state = 'leased' and coalesce(c.scope, 'unfinished')
                                    = 'unfinished')
                                    or (c.held and c.state <> 'purged') as hit) x order by c.case;
select is(j.payload ->> 'n', case when c.mode = 'replace' and c.state in ('ready', 'scheduled')
    then '2' else '1' end,
          format('C-6 holder %s, on_duplicate %s: the first job''s payload is %s', c.state,
          coalesce(c.mode, 'none'), j.payload ->> 'n'))
from dedupe_case c join jobs j on j.id = c.first_id where c.scope is null and not c.held
    order by c.case;
create temporary table inside as
select * from batchq.enqueue_many('[{"kind": "k", "queue": "in", "dedupe_key": "A", "payload": 1},
    {"kind": "k", "queue": "in", "payload": 2}, {"kind": "k", "queue": "in", "dedupe_key": "A", "payload": 3},
    {"kind": "k", "queue": "in", "dedupe_key": "B", "payload": 4}, {"kind": "k", "queue": "in2", "dedupe_key": "A", "payload": 5},
    {"kind": "k", "queue": "in", "dedupe_key": "A", "payload": 6, "on_duplicate": "replace"}, {"kind": "k", "queue": "in", "payload": 2}]');
select is(string_agg(is_new::text, ' ' order by ordinal), 'true true false true true false true',
          'A-41 F016 the second job of one key in a batch is a duplicate, new and duplicate mixed')
          from inside;
select is(count(distinct job_id), 1::bigint, 'A-41 and has the id of the first') from inside
    where ordinal in (1, 3, 6);
select is(string_agg(j.payload::text, ' ' order by i.ordinal), '6 2 6 4 5 6 2',
    'C-6 the last that replaces wins, the rest is as given')
from inside i join jobs j on j.id = i.job_id;
select is(t.take('in', 10), (select string_agg(job_id::text, ' ' order by ordinal) from inside
    where is_new and ordinal <> 5),
          'C-6 and what was replaced keeps its place');
select is(string_agg(is_new::text, ' ' order by ordinal), 'false false',
    'A-41 all duplicates is no error')
from
    batchq.enqueue_many('[{"kind": "k", "queue": "in", "dedupe_key": "A"}, {"kind": "k", "queue": "in", "dedupe_key": "A"}]');
select is((select count(distinct job_id) from batchq.enqueue_many(
    '[{"kind": "k", "queue": "eq", "dedupe_key": "a"}, {"kind": "k", "queue": "eq", "dedupe_key": "A"}, {"kind": "k", "queue": "eq", "dedupe_key": "a "},
      {"kind": "k", "queue": "eq", "dedupe_key": "1"}, {"kind": "k", "queue": "eq", "dedupe_key": "1.0"}, {"kind": "k", "queue": "eq", "dedupe_key": 1}]')),
    5::bigint, 'F023 keys are compared as texts, a number by its digits');
select batchq.enqueue('k', queue => 'roll', dedupe_key => 'K') as a \gset
select is(job_id, :a::bigint, 'a key of a job that enqueue made counts')
    from batchq.enqueue_many('[{"kind": "k", "queue": "roll", "dedupe_key": "K"}]');
select is((select count(*) from jobs where queue = 'roll'), 1::bigint,
    'and the drawn id is not used');

select batchq.enqueue('k', queue => 'mv', dedupe_key => 'A') as a,
    batchq.enqueue('k', queue => 'mv', dedupe_key => 'B', delay => '1 h') as b \gset
select
    batchq.enqueue_many('[{"kind": "k", "queue": "mv", "dedupe_key": "A", "on_duplicate": "replace", "delay": 30, "headers": {"h": 1}}, {"kind": "k", "queue": "mv", "dedupe_key": "B", "on_duplicate": "replace"}]')
    \g /dev/null
select is(t.job(:a) || ' ' || t.wait(:a) || ' ' || t.job(:b), 'scheduled:0 00:00:30 ready:0',
    'C-6 replace moves each to its new time');
select is((t.of(:a)).headers, '{"h": 1}', 'C-6 with its new headers');

select job_id as a from batchq.enqueue_many('[{"kind": "k", "queue": "last", "dedupe_key": "K"},
    {"kind": "k", "queue": "last", "dedupe_key": "K", "payload": 1, "on_duplicate": "replace"},
    {"kind": "k", "queue": "last", "dedupe_key": "K", "payload": 2, "on_duplicate": "replace"}]')
where ordinal = 1 \gset
select is((t.of(:a)).payload, '2', 'C-6 of two that replace one job in a batch the last wins');

-- time
select is(string_agg(t.job(job_id), ' ' order by ordinal), 'ready:0 ready:0 scheduled:0 ready:0',
          'F067 a delay of 0 or less is ready, one of more is scheduled')
from
    batchq.enqueue_many('[{"kind": "k", "delay": 0}, {"kind": "k", "delay": -5}, {"kind": "k", "delay": "1 mon"},
                           {"kind": "k", "run_at": "2001-01-01T00:00:00+05:30"}]');
select t.pass('1 s') \g /dev/null
select job_id as low
    from batchq.enqueue_many('[{"kind": "k", "queue": "mix", "delay": 5, "priority": 1},
                                                {"kind": "k", "queue": "mix", "priority": 0}]') where ordinal = 2 \gset
select t.pass('5 s') \g /dev/null
select is((select l.priority from batchq.lease('mix') l), 1,
    'A-80 A-81 a delayed job of higher priority goes first once due');

-- the session's settings change nothing
set local timezone = 'Asia/Kathmandu';
set local datestyle = 'German, DMY';
set local intervalstyle = 'sql_standard';
create temporary table job_spec (kind text);
set local search_path = pg_temp;
select job_id as env
    from batchq.enqueue_many('[{"kind": "k", "queue": "env", "delay": "1 day 2 hours"}]') \gset
select job_id as utc
    from batchq.enqueue_many('[{"kind": "k", "queue": "env", "run_at": "2030-03-04T05:06:07Z"}]')
    \gset
set local search_path = batchq, pgtap, public;
reset timezone; reset datestyle; reset intervalstyle;
select is(t.wait(:env), '26 h', 'an interval means the same under any IntervalStyle');
select is(j.run_at, '2030-03-04 05:06:07+00',
    'and a time with a zone under any TimeZone and DateStyle') from jobs j where j.id = :utc;

-- groups: a batch as if one by one
select batchq.set_queue('g1', group_limit => 1) \g /dev/null
select batchq.enqueue_many('[{"kind": "k", "queue": "g1", "group_key": "g", "priority": 1},
    {"kind": "k", "queue": "g1", "group_key": "g", "priority": 7},
    {"kind": "k", "queue": "g1", "group_key": "h"},
    {"kind": "k", "queue": "g1"},
    {"kind": "k", "queue": "g1", "group_key": "g", "delay": 60},
    {"kind": "k", "queue": "free", "group_key": "g"}]') \g /dev/null
select is((select string_agg(j.state, ' ' order by j.id) from batchq.jobs j
           where j.queue in ('g1', 'free')),
    'blocked blocked blocked ready scheduled ready',
    'jobs of groups wait in blocked, if they are due and their queue limits groups');
select is((select string_agg(j.group_key || j.priority, ' ' order by j.id) from batchq.jobs j
           where j.queue = 'g1' and j.group_key is not null), 'g1 g7 h0 g0', 'with their group_key');
select is((select count(*) from batchq.call c where c.queue = 'g1'), 2::bigint,
    'one call a group');
select is((select string_agg(j.group_key || l.priority, ' ' order by j.id)
           from batchq.lease('g1', 10) l join batchq.jobs j on j.id = l.job_id
           where j.group_key is not null), 'g1 h0', 'the first of each group starts');
select is(t.seats('g1'), 'g:1 h:1', 'and has a seat');

-- groups and keys
select batchq.enqueue_many('[{"kind": "k", "queue": "g1", "group_key": "k", "dedupe_key": "K"},
    {"kind": "k", "queue": "g1", "group_key": "k", "dedupe_key": "K"},
    {"kind": "k", "queue": "g1", "group_key": "k", "dedupe_key": "L"}]') \g /dev/null
select is((select count(*) from batchq.blocked b where b.group_key = 'k'), 2::bigint,
    'a duplicate makes no blocked job');
select is((select string_agg(e.is_new::text, ' ' order by e.ordinal) from batchq.enqueue_many(
    '[{"kind": "k", "queue": "g1", "group_key": "k", "dedupe_key": "K", "payload": 7,
       "on_duplicate": "replace"}]') e), 'false', 'a blocked job holds its key');
select is((select j.state || j.payload from batchq.jobs j where j.dedupe_key = 'K'
           and j.queue = 'g1'), 'blocked7', 'and is replaced there');
select throws_ok($$ select batchq.enqueue_many('[{"kind": "k", "queue": "g1", "group_key": "g"},
    {"kind": "k", "queue": "g1", "group_key": ""}]') $$, 'JQ001', null,
    'an empty group_key is refused with its batch');
select throws_ok(format($$ select batchq.enqueue_many('[{"kind": "k", "queue": "g1",
    "group_key": %s}]') $$, to_json(repeat('g', 256))), 'JQ001', null,
    'F022 so is one of 256 characters');

-- the size limit, of a batch as a whole
select batchq.set_queue('full', max_depth => 3) \g /dev/null
select throws_ok($$ select batchq.enqueue_many(jsonb_agg('{"kind": "k", "queue": "full"}'::jsonb))
    from generate_series(1, 4) $$, 'JQ006', null, 'D-3 a batch that is too large is refused');
select is((select count(*) from batchq.job j where j.queue = 'full'), 0::bigint, 'all of it');
select is(t.code($$ select batchq.enqueue_many('[{"kind": "k", "queue": "full"},
    {"kind": "k", "queue": "full", "priority": 4}, {"kind": "k", "queue": "full", "delay": 9},
    {"kind": "k", "queue": "full"}]') $$), 'ok', 'one that fits is taken');
select throws_ok($$ select batchq.enqueue_many('[{"kind": "k", "queue": "full",
    "priority": 9}]') $$, 'JQ006', null, 'then it is full, for a lane that is new too');
select batchq.set_queue('late', max_depth => 3, on_full => 'delay') \g /dev/null
select batchq.enqueue_many('[{"kind": "k", "queue": "late", "priority": 2},
    {"kind": "k", "queue": "late"}, {"kind": "k", "queue": "late"},
    {"kind": "k", "queue": "late"}, {"kind": "k", "queue": "late", "priority": 2}]') \g /dev/null
select is((select string_agg(j.state || j.priority, ' ' order by j.id) from batchq.jobs j
           where j.queue = 'late'), 'ready2 ready0 scheduled0 scheduled0 ready2',
    'on_full delay: the last of the lowest priority are put off');
select ok(bool_and(s.run_at - t.now() between '30 s' and '90 s'), 'by 30 to 90 s')
    from batchq.scheduled s where s.queue = 'late';
select batchq.set_queue('late1', max_depth => 3, on_full => 'delay', group_limit => 1) \g /dev/null
select batchq.enqueue_many(jsonb_agg('{"kind": "k", "queue": "late1", "group_key": "g"}'::jsonb))
    from generate_series(1, 5) \g /dev/null
select is((select string_agg(j.state, ' ' order by j.id) from batchq.jobs j
           where j.queue = 'late1'), 'blocked blocked blocked scheduled scheduled',
    'so are blocked ones');
select t.pass('90 s') \g /dev/null
select is(t.count('late1') || ' ' || t.seats('late1') || ' '
          || cardinality(string_to_array(t.in_state('late1', 'blocked'), ' ')), '1 g:1 4',
    'and they come back to wait for their turn');

select * from finish();
rollback;
