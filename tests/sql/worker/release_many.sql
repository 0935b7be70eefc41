begin;
select plan(16);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'r', priority => i % 2)
    from generate_series(1, 8) i \g /dev/null
create temporary table m as select l.*, row_number() over (order by l.job_id) as n
    from batchq.lease('r', 8) l;
select is_empty($$ select * from batchq.release_many(array(select job_id from m where n < 4
    order by n), array(select lease_id from m where n < 4 order by n)) $$,
                'what is settled is not reported');
select is(string_agg(t.job(job_id), ' ' order by n), 'ready:0 ready:0 ready:0',
    'all are ready, attempts given back') from m where n < 4;
select is(t.take('r', 3), (select string_agg(job_id::text, ' ' order by priority desc, n) from m
    where n < 4), 'F016 in order of priority, then of the array');
select is_empty($$ select * from batchq.release_many('{}', '{}') $$,
    'F065 empty arrays are no error');

select batchq.complete(job_id, lease_id) from m where n = 5 \g /dev/null
select batchq.fail(job_id, lease_id, 'e', retry_in => '1 h') from m where n = 6 \g /dev/null
select batchq.cancel(job_id) from m where n = 7 \g /dev/null
create temporary table lost as
select * from batchq.release_many((select array_agg(job_id order by n) from m where n > 3)
    || array[-1, null],
                                  (select array_agg(case n when 8 then lease_id + 1000
                                  else lease_id end order by n) from m where n > 3) || array[1, 1]);
select is(string_agg(coalesce(m.n::text, l.job_id::text, 'null') || l.reason, ' ' order by m.n,
    l.job_id), '5lost 6lost 8lost -1lost nulllost',
          'completed, failed, another''s lease, unknown and null are lost, and they alone')
          from lost l left join m using (job_id);
select is(string_agg(t.job(job_id), ' ' order by n),
    'ready:0 completed:1 scheduled:1 cancelled:1 leased:1', 'one bad row never spoils the rest')
    from m where n > 3;
select is_empty(format('select * from batchq.release_many(array[%s, %1$s], array[%s, %2$s])',
    job_id, t.lease_of(job_id)), 'F065 the same pair twice is settled once, and not reported')
    from m where n = 8;
select is(t.job(job_id), 'ready:0', 'and is in one place') from m where n = 8;
select results_eq(format('select reason from batchq.release_many(array[%s], array[%s])', job_id,
    lease_id), array['lost'], 'a lease that was handed back is lost') from m where n = 8;
select is((select count(*) from batchq.error), 1::bigint, 'no error is noted but that of fail');

select throws_ok(format('select * from batchq.release_many(%s)', v), 'JQ001', null,
    format('F065 %s is refused', left(v, 60)))
from unnest(array['null, null', '''{}'', null', 'null, ''{}''', '''{1}'', ''{}''',
    '''{1}'', ''{1,2}''',
    'array_fill(1::bigint, array[10001]), array_fill(1::bigint, array[10001])']) v;

select * from finish();
rollback;
