begin;
select plan(14);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'p') from generate_series(1, 4) \g /dev/null
create temporary table m as select l.*, row_number() over (order by l.job_id) as n
    from batchq.lease('p', 4) l;
select is_empty($$ select * from batchq.progress_many(array(select job_id from m order by n),
    array(select lease_id from m order by n), array['1', '2', null, '{"a": 4}']::jsonb[]) $$,
                'what is written is not reported');
select is(string_agg(coalesce((t.of(job_id)).progress::text, 'none'), ' ' order by n),
    '1 2 none {"a": 4}', 'each has its own') from m;
select batchq.complete(job_id, lease_id) from m where n = 2 \g /dev/null
create temporary table lost as
select * from batchq.progress_many((select array_agg(job_id order by n) from m) || array[-1, null],
    (select array_agg(case n when 3 then lease_id + 1000 else lease_id end order by n) from m)
    || array[1, 1],
                                   array['5', '6', '7', '8', '9', '10']::jsonb[]);
select is(string_agg(coalesce(m.n::text, l.job_id::text, 'null') || l.reason, ' ' order by m.n,
    l.job_id), '2lost 3lost -1lost nulllost',
    'completed, another''s lease, unknown and null are lost') from lost l
    left join m using (job_id);
select is(string_agg(coalesce((t.of(job_id)).progress::text, 'none'), ' ' order by n),
    '5 none none 8', 'one bad row never spoils the rest, nor shifts its value') from m;
select
    results_eq(format('select reason from batchq.progress_many(array[%s, %1$s], array[%s, %2$s], array[''9'', ''9'']::jsonb[])',
    job_id, lease_id), array['deferred'],
    'F065 a pair given twice is written once, the second is deferred') from m where n = 1;
select is((t.of(job_id)).progress, '9', 'and its value is there') from m where n = 1;
select is_empty($$ select * from batchq.progress_many('{}', '{}', '{}') $$,
    'F065 empty arrays are no error');
select throws_ok(format('select * from batchq.progress_many(%s)', v), 'JQ001', null,
    format('F065 %s is refused', left(v, 60)))
from unnest(array['null, null, null', '''{1}'', null, ''{1}''', '''{1}'', ''{}'', ''{1}''',
    '''{1}'', ''{1}'', ''{}''', '''{1}'', ''{1}'', ''{1,2}''',
    '''{1}'', ''{1}'', array[to_jsonb(repeat(''x'', 65537))]',
                  'array_fill(1::bigint, array[10001]), array_fill(1::bigint, array[10001]), array_fill(''1''::jsonb, array[10001])'])
                  v;

select * from finish();
rollback;
