begin;
select plan(19);
\ir ../clock.psql

select batchq.set_queue('q', breaker_share => 1, breaker_min => 2, breaker_pause => '1 h')
    \g /dev/null
select batchq.enqueue(k, queue => 'q') from unnest(array['x', 'y']) k, generate_series(1, 30)
    \g /dev/null
select batchq.fail_many(array_agg(l.job_id), array_agg(l.lease_id), array_agg('e'::text),
                        retry_ins => array_agg(interval '1 day'))
from batchq.lease('q', 32) l \g /dev/null
select is((select string_agg(b.kind, '') from batchq.list_breakers('q') b), 'xy', 'two are open');
select is(t.take('q'), null, 'jobs are held back');

select lives_ok($$ select batchq.reset_breaker('q', 'y') $$, 'one is reset');
select is((select string_agg(b.kind, '') from batchq.list_breakers('q') b), 'x', 'and no other');
select is(batchq.next_due('{q}'), '0', 'its jobs are due');
select is(t.count('q'), 28::bigint, 'and run');
select is((select max(l.attempt) from batchq.leased l), 1::smallint, 'their attempts were not counted');
select batchq.fail(l.job_id, l.lease_id, 'e')
from (select l.* from batchq.leased l limit 1) l \g /dev/null
select is((select string_agg(b.kind, '') from batchq.list_breakers('q') b), 'x',
    'what failed before does not count any more');
select lives_ok($$ select batchq.reset_breaker('q', 'y') $$, 'being asked twice is no error');
select lives_ok($$ select batchq.reset_breaker('q', 'never seen') $$, 'nor is another kind');
select batchq.fail(l.job_id, l.lease_id, 'e')
from (select l.* from batchq.leased l limit 1) l \g /dev/null
select is((select string_agg(b.kind, '') from batchq.list_breakers('q') b), 'x',
    'it begins anew each time');
select batchq.fail(l.job_id, l.lease_id, 'e')
from (select l.* from batchq.leased l limit 1) l \g /dev/null
select is((select string_agg(b.kind, '') from batchq.list_breakers('q') b), 'xy', 'it may open again');

select throws_ok($$ select batchq.reset_breaker('nobody', 'k') $$, 'JQ002', null,
    'a queue that was never used is told');
select throws_ok(format('select batchq.reset_breaker(%s)', v), 'JQ001', null,
    format('D-6 %s is refused', left(v, 40)))
from unnest(array['null, ''x''', '''q'', null', '''q'', ''''',
                  format('''q'', %L', repeat('k', 256))]) v;
set local role batchq_operator;
select batchq.reset_breaker('q', 'x') \g /dev/null
reset role;
select is((select string_agg(b.kind, '') from batchq.list_breakers('q') b), 'y',
    'the role batchq_operator may call it');
select is(t.code($$ set local role batchq_worker; select batchq.reset_breaker('q', 'x') $$), '42501',
    'D-7 batchq_worker may not');

select * from finish();
rollback;
