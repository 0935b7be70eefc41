begin;
select plan(8);
\ir ../clock.psql

-- the row of a sweep has the xid of a subtransaction: newer than this transaction's, which runs
select pg_current_xact_id()::text::bigint & 4294967295 as me,
       (pg_current_xact_id()::text::bigint + 1) & 4294967295 as sub \gset
select is(batchq._mark_passed(null, :sub), false,
    'a mark of this transaction has not passed, as it runs');
select is(batchq._mark_passed(null, :me), true, 'one that is as old as the oldest that runs has');
select is(batchq._mark_passed(null, 3), true, 'so has one of an old row');
select is(batchq._mark_passed(3, :sub), true,
    'one that waits for an old xid has, whatever row it is handed on in');
select is(batchq._mark_passed(:sub, (:sub + 5) & 4294967295), false,
    'one that waits for a newer one has not');
select is(batchq._mark_passed((:me + 1000) & 4294967295, 3), true,
          'F076 a mark_xid newer than its row comes from another cluster: the row''s counts');
select is(batchq._mark_passed((:me + 1000) & 4294967295, :sub), false,
    'F076 also when that has not passed');
select is(batchq._mark_passed(null, 2), true, 'a frozen row''s has');

select * from finish();
rollback;
