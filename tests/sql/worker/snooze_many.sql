begin;
select plan(15);
\ir ../clock.psql

select batchq.enqueue('k', queue => 's') from generate_series(1, 6) i \g /dev/null
create temporary table m as select l.*, row_number() over (order by l.job_id) as n
    from batchq.lease('s', 6) l;
select is_empty($$ select * from batchq.snooze_many((select array_agg(job_id order by n desc) from m
    where n < 5), (select array_agg(lease_id order by n desc) from m where n < 5),
                                                    array['4 s', null, '-1 s',
                                                    '1 s']::interval[]) $$,
                                                    'what is settled is not reported');
select is(string_agg(t.job(job_id) || coalesce(' ' || t.wait(job_id), ''), ', ' order by n),
    'scheduled:0 00:00:01, ready:0, ready:0, scheduled:0 00:00:04',
    'each has its own delay, none for null or a negative one') from m where n < 5;
select batchq.complete(job_id, lease_id) from m where n = 5 \g /dev/null
select results_eq($$ select job_id, lease_id, reason
    from batchq.snooze_many((select array_agg(job_id order by n) from m where n > 4),
    (select array_agg(lease_id order by n) from m where n > 4), array['1 h', '2 h']::interval[]) $$,
                  $$ select job_id, lease_id, 'lost' from m where n = 5 $$, 'what is lost is');
select is(t.job(job_id) || ' ' || t.wait(job_id), 'scheduled:0 02:00:00',
    'one bad row never spoils the rest, nor shifts its delay') from m where n = 6;
select is_empty($$ select * from batchq.snooze_many('{}', '{}', '{}') $$,
    'F065 empty arrays are no error');
select throws_ok(format('select * from batchq.snooze_many(%s)', v), 'JQ001', null,
    format('F065 %s is refused', left(v, 60)))
from unnest(array['null, null, null', '''{}'', null, ''{}''', '''{1}'', ''{}'', ''{1 s}''',
    '''{1}'', ''{1}'', ''{}''', '''{1}'', ''{1}'', ''{1 s,2 s}''',
    '''{1}'', ''{1}'', ''{11 years}''', '''{1}'', ''{1}'', ''{-11 years}''',
                  'array_fill(1::bigint, array[10001]), array_fill(1::bigint, array[10001]), array_fill(interval ''1 s'', array[10001])'])
                  v;
select batchq.enqueue('k', queue => 'dup') as a \gset
select l.lease_id as l from batchq.lease('dup') l \gset
select
    is_empty(format('select * from batchq.snooze_many(array[%s, %1$s], array[%s, %2$s], array[interval ''1 s'', ''1 s''])',
    :a, :l), 'F065 the same pair twice is settled once, and not reported');
select is(t.job(:a), 'scheduled:0', 'and is in one place');

select * from finish();
rollback;
