begin;
select plan(4);
\ir ../clock.psql

select ok(min(b) >= 0 and max(b) <= 1023 and count(distinct b) > 1000,
    'ten thousand queues have bells from 0 to 1023')
    from (select batchq._bell('q' || i) as b from generate_series(1, 10000) i) x;
select is(batchq._bell('mail'), batchq._bell('mail'), 'a queue has one bell');
select ok(batchq._bell('é') is not null and batchq._bell(repeat('𝄞', 255)) is not null
    and batchq._bell(E'new\nline') is not null, 'F064 whatever its name');
select batchq.enqueue('k', queue => 'q' || i) from generate_series(1, 3000) i \g /dev/null
select ok(count(*) <= 1024,
    'a transaction that adds to thousands of queues holds at most 1,024 locks') from pg_locks
    where locktype = 'advisory' and pid = pg_backend_pid();

select * from finish();
rollback;
