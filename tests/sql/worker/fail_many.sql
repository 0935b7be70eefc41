begin;
select plan(32);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'f', max_attempts => 5, backoff => 'fixed',
    backoff_base => '7 s', dedupe_key => 'K' || i) from generate_series(1, 5) i \g /dev/null
create temporary table f as select l.*, row_number() over (order by l.job_id) as n
    from batchq.lease('f', 5) l;
select batchq.cancel(job_id, 'why') from f where n = 5 \g /dev/null
select is_empty($$ select * from batchq.fail_many((select array_agg(job_id order by n desc) from f),
    (select array_agg(lease_id order by n desc) from f),
    (select array_agg('e' || n order by n desc) from f), array[null, null, true, false, null],
    array[null, '3 s', '3 s', null, '-1 s']::interval[]) $$, 'what is settled is not reported');
select is(string_agg((t.of(job_id)).state || coalesce(t.wait(job_id)::text, '')
    || (t.of(job_id)).last_error, ' ' order by n),
          'scheduled00:00:00e1 scheduled00:00:07e2 failede3 scheduled00:00:03e4 cancellede5',
          'each row has its own error, permanence and wait') from f;
select is((select string_agg(d.dedupe_key, ' ' order by 1) from batchq.dedupe d
    where d.queue = 'f'), 'K1 K2 K4', 'F025 those that are over give their keys back');
select is_empty($$ select * from batchq.fail_many((select array_agg(job_id) from f),
    (select array_agg(lease_id) from f), (select array_agg('x'::text) from f)) $$,
    'F009 asked twice is no error');
select is((select count(*) from batchq.error e join f using (job_id)), 5::bigint,
    'F009 and there is one error each');
select is_empty($$ select * from batchq.fail_many('{}', '{}', '{}') $$,
    'F065 empty arrays are no error');
select is_empty($$ select * from batchq.fail_many('{}', '{}', '{}', '{}', '{}') $$,
    'nor are five of them');

-- bad rows among good ones
select batchq.enqueue('k', queue => 'm', max_attempts => 2, backoff => 'fixed')
    from generate_series(1, 6) \g /dev/null
create temporary table m as select l.*, row_number() over (order by l.job_id) as n
    from batchq.lease('m', 6) l;
select batchq.complete(job_id, lease_id) from m where n = 2 \g /dev/null
select batchq.release(job_id, lease_id) from m where n = 3 \g /dev/null
update batchq.leased l set (lease_until, reap_at) = (t.now(), t.now()) from m where l.job_id = m.job_id and m.n = 4;
select batchq.reap() \g /dev/null
create temporary table lost as
select * from batchq.fail_many((select array_agg(job_id order by n) from m) || array[-1, null],
                               (select array_agg(case n when 5 then lease_id + 1000
                               else lease_id end order by n) from m) || array[1, 1],
                               array_fill('e'::text, array[8]));
select is(string_agg(coalesce(m.n::text, l.job_id::text, 'null') || l.reason, ' ' order by m.n,
    l.job_id), '2lost 3lost 4lost 5lost -1lost nulllost',
          'completed, released, reaped, another''s lease, unknown and null are lost') from lost l
          left join m using (job_id);
select is(string_agg(t.job(job_id), ' ' order by n),
    'scheduled:1 completed:1 ready:0 scheduled:1 leased:1 scheduled:1',
    'one bad row never spoils the rest') from m;
select
    is_empty(format('select * from batchq.fail_many(array[%s, %1$s], array[%s, %2$s], array[''x'', ''y''])',
    job_id, t.lease_of(job_id)), 'F065 the same pair twice is settled once, and not reported')
    from m where n = 5;
select is((select count(*) from batchq.error e where e.job_id = m.job_id), 1::bigint,
    'with one error') from m where n = 5;

-- B-33 F069: drawn per row, in one call, within the bound and uniform; the seed makes the draws
-- those of every run
select setseed(0.33) \g /dev/null
select
    batchq.enqueue_many((select jsonb_agg('{"kind": "k", "queue": "jit", "backoff_base": 8}'::jsonb)
    from generate_series(1, 2000))) \g /dev/null
create temporary table jit as select * from batchq.lease('jit', 2000);
select batchq.fail_many(array(select job_id from jit order by 1),
    array(select lease_id from jit order by job_id),
    array_fill('e'::text, array[2000])) \g /dev/null
create temporary table wait as select extract(epoch from s.run_at - t.now()) as w
    from batchq.scheduled s where s.queue = 'jit';
select is(count(*), 2000::bigint, 'B-33 2,000 jobs fail in one call') from wait;
select ok(min(w) >= 0 and max(w) <= 8, 'B-33 F069 every wait is between 0 and the base') from wait;
select ok(avg(w) between 4 * 0.95 and 4 * 1.05, 'B-33 their mean is half the base, within 5 %')
    from wait;
select ok(count(distinct w) > 1900, 'B-33 F069 each is drawn for itself') from wait;
select ok(min(b.n) > 70 and max(b.n) < 135 and count(*) = 20,
    'B-33 F069 they are uniform: of 20 buckets none is far from 100')
from (select count(*) as n from wait group by least(floor(w / 0.4), 19)) b;
select ok(max(d.d) < 0.0365, 'B-33 Kolmogorov-Smirnov: no further from uniform than p 0.01 allows')
from (select greatest(abs(row_number() over (order by w) / 2000.0 - w / 8),
    abs((row_number() over (order by w) - 1) / 2000.0 - w / 8)) as d from wait) d;

-- refusals
select throws_ok(format('select * from batchq.fail_many(%s)', v), 'JQ001', null,
    format('F065 %s is refused', left(v, 70)))
from unnest(array['null, null, null', '''{1}'', null, ''{e}''', 'null, ''{1}'', ''{e}''',
    '''{1}'', ''{}'', ''{e}''', '''{1}'', ''{1}'', ''{}''', '''{1}'', ''{1}'', ''{e,f}''',
                  '''{1}'', ''{1}'', ''{e}'', ''{}''', '''{1}'', ''{1}'', ''{e}'', null, ''{}''',
                  '''{1}'', ''{1}'', ''{e}'', ''{t,f}''',
                  '''{1}'', ''{1}'', ''{e}'', null, array[null, null]::interval[]',
                  '''{1}'', ''{1}'', ''{e}'', null, array[interval ''11 years'']',
                  '''{1}'', ''{1}'', ''{e}'', null, array[interval ''-11 years'']',
                  'array_fill(1::bigint, array[10001]), array_fill(1::bigint, array[10001]), array_fill(''e''::text, array[10001])'])
                  v;
select batchq.enqueue('k', queue => 'all') \g /dev/null
create temporary table a as select * from batchq.lease('all');
select throws_ok($$ select f.* from a, batchq.fail_many(array[job_id, job_id],
    array[lease_id, lease_id], '{e,e}', null, array[null, '11 years']::interval[]) f $$, 'JQ001',
    null, 'one wait over 10 years is refused');
select is(t.job(job_id), 'leased:1', 'and nothing is settled then') from a;

select * from finish();
rollback;
