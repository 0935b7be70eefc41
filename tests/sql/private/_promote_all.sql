begin;
select plan(6);
\ir ../clock.psql

select is(batchq._promote_all(1000), 0::bigint, 'with nothing scheduled nothing moves');
select batchq.enqueue('k', queue => q, delay => '1 s')
    from unnest(array['a', 'b', 'B', 'é', 'zzz', repeat('𝄞', 255)]) q,
    generate_series(1, 3) \g /dev/null
select batchq.enqueue('k', queue => 'zzz', delay => '1 h') \g /dev/null
select is(batchq._promote_all(1000), 0::bigint, 'nor with nothing due');
select t.pass('2 s') \g /dev/null
select is(batchq._promote_all(1000), 18::bigint, 'the due jobs of every queue are made ready');
select is((select count(*) from batchq.scheduled), 1::bigint, 'what is not due stays');
select batchq.enqueue('k', queue => 'far', delay => '1 h') as a \gset
update batchq.scheduled set run_at = 'infinity' where job_id = :a;
select batchq.enqueue('k', queue => 'far', delay => '1 s') as b \gset
select t.pass('2 s') \g /dev/null
select is(batchq._promote_all(1000), 1::bigint, 'F063 a time of infinity holds nobody up');
delete from batchq.floor where queue = 'a';
select batchq.enqueue('k', queue => 'a', delay => '1 s') \g /dev/null
delete from batchq.floor where queue = 'a';
select t.pass('2 s') \g /dev/null
select is(batchq._promote_all(1000), 1::bigint, 'a queue without a floor is found');

select * from finish();
rollback;
