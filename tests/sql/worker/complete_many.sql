begin;
select plan(28);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'c', dedupe_key => 'K' || i)
    from generate_series(1, 6) i \g /dev/null
create temporary table mine as select * from batchq.lease('c', 6);
select is_empty($$ select * from batchq.complete_many(array(select job_id from mine
    order by job_id), array(select lease_id from mine order by job_id),
    array(select to_jsonb(row_number() over (order by job_id)) from mine)) $$,
    'what is settled is not reported');
select is(string_agg((t.of(job_id)).state || (t.of(job_id)).result, ' ' order by job_id),
          'completed1 completed2 completed3 completed4 completed5 completed6',
          'each has its own result') from mine;
select is_empty($$ select * from batchq.complete_many(array(select job_id from mine),
    array(select lease_id from mine)) $$, 'F009 asked twice is no error');
select is((select count(*) from batchq.outcome o join mine m using (job_id)), 6::bigint,
    'F009 and there is one outcome each');
select is((select count(*) from batchq.dedupe d where d.queue = 'c'), 0::bigint,
    'F025 all keys are given back');
select is_empty($$ select * from batchq.complete_many('{}', '{}') $$,
    'F065 empty arrays are no error');
select is_empty($$ select * from batchq.complete_many('{}', '{}', '{}') $$,
    'nor with empty results');

-- bad rows among good ones
select batchq.enqueue('k', queue => 'm', max_attempts => 1) from generate_series(1, 7) \g /dev/null
create temporary table m as select l.*, row_number() over (order by l.job_id) as n
    from batchq.lease('m', 7) l;
select batchq.release(job_id, lease_id) from m where n = 2 \g /dev/null
select batchq.fail(job_id, lease_id, 'e') from m where n = 3 \g /dev/null
select batchq.cancel(job_id) from m where n = 4 \g /dev/null
update batchq.leased l set (lease_until, reap_at) = (t.now(), t.now()) from m where l.job_id = m.job_id and m.n = 5;
select batchq.reap() \g /dev/null
create temporary table lost as
select * from batchq.complete_many((select array_agg(job_id order by n) from m) || array[-1, null,
    (select job_id from m where n = 1)],
                                   (select array_agg(case n when 6 then lease_id + 1000
                                   else lease_id end order by n) from m) || array[1, 1, null]);
select is(count(*), 7::bigint, 'seven of ten are reported') from lost;
select is(string_agg(distinct reason, ' '), 'lost', 'all as lost') from lost;
select is(string_agg(coalesce(m.n::text, l.job_id::text, 'null'), ' ' order by m.n, l.job_id),
    '1 2 3 5 6 -1 null',
          'released, failed, reaped, another''s lease, unknown and null; each with what was handed in')
          from lost l left join m using (job_id);
select is(string_agg(t.job(job_id), ' ' order by n),
    'completed:1 ready:0 failed:1 completed:1 failed:1 leased:1 completed:1',
          'one bad row never spoils the rest') from m;
select is((select string_agg(l.job_id || ' ' || l.lease_id, ' ') from lost l
    where l.job_id = m.job_id), m.job_id || ' ' || m.lease_id + 1000,
          'the lease is named as it was handed in') from m where n = 6;

-- duplicates in the arrays
select is_empty(format('select * from batchq.complete_many(array[%s, %1$s], array[%s, %2$s])',
    job_id, t.lease_of(job_id)), 'F065 the same pair twice is settled once, and not reported')
from m where n = 6;
select is((select count(*) from batchq.outcome o where o.job_id = m.job_id), 1::bigint,
    'with one outcome') from m where n = 6;

-- size
select batchq.enqueue('k', queue => 's') as a, batchq.enqueue('k', queue => 's') as b \gset
create temporary table s as select * from batchq.lease('s', 2);
select results_eq($$ select l.job_id, l.reason
    from batchq.complete_many(array(select job_id from s order by 1),
    array(select lease_id from s order by 1),
                      array[to_jsonb(repeat('x', 1048577)), '1']) l $$,
                      format('values (%s::bigint, ''too_large'')', :a),
                      'D-4 a result over 1 MiB is too_large');
select is(t.job(:a) || ' ' || t.job(:b), 'leased:1 completed:1',
    'that job is still leased, the other is completed');

-- refusals
select throws_ok(format('select * from batchq.complete_many(%s)', v), 'JQ001', null,
    format('F065 %s is refused', left(v, 60)))
from unnest(array['null, null', 'null, ''{}''', '''{}'', null', '''{1}'', ''{}''',
    '''{}'', ''{1}''', '''{1,2}'', ''{1}''', '''{1}'', ''{1}'', ''{}''',
                  '''{1}'', ''{1}'', array[''1'', ''2'']::jsonb[]',
                  'array_fill(1::bigint, array[10001]), array_fill(1::bigint, array[10001])']) v;
select is((select count(*) from batchq.complete_many(array_fill(-1::bigint, array[10000]),
    array_fill(1::bigint, array[10000]))), 10000::bigint, '10,000 pairs are taken');

-- expired but not taken back
select batchq.enqueue('k', queue => 'exp') \g /dev/null
create temporary table e as select * from batchq.lease('exp', lease_for => '1 s');
select t.pass('2 s') \g /dev/null
select is_empty($$ select c.* from e, batchq.complete_many(array[e.job_id], array[e.lease_id]) c $$,
    'F003 after lease_until the holder may complete until it is taken back');
select is(t.job(job_id), 'completed:1', 'and it is completed') from e;

select * from finish();
rollback;
