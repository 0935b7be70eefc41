begin;
select plan(8);
\ir ../clock.psql

select batchq.set_queue('q', breaker_share => 1, breaker_min => 1, breaker_window => '10 s',
                        breaker_pause => '5 s') \g /dev/null
select batchq.enqueue('k', queue => 'q', max_attempts => 1) from generate_series(1, 3001) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('q') l \g /dev/null
select t.take('q') from generate_series(1, 2) \g /dev/null
select batchq.reset_breaker('q', 'k') \g /dev/null
select cmp_ok((select count(*) from batchq.breaker), '=', 1::bigint,
    'its row stays while jobs are held back');
select is((select count(*) from batchq.list_breakers()), 0::bigint, 'though it is closed');
select cmp_ok(batchq._check_breakers(1000), '>=', 1000::bigint, 'upkeep lets go of more');
select batchq._check_breakers(1000) from generate_series(1, 3) \g /dev/null
select is((select count(*) from batchq.breaker), 0::bigint, 'then the row goes');
select is((select count(*) from batchq.scheduled s where s.run_at > t.now()), 0::bigint,
    'all jobs are due');

select is((select count(*) from batchq.attempt_end), 2::bigint,
    'ends of attempts are kept as long as they count');
select t.pass('10 s') \g /dev/null
select is(batchq._check_breakers(1000), 2::bigint, 'and no longer');
select is((select count(*) from batchq.attempt_end), 0::bigint, 'they are deleted');

select * from finish();
rollback;
