begin;
select plan(9);
\ir ../clock.psql

select is(batchq._is_free(xmax, null, busy, next), x, d)
from (values
    (0::bigint, '{5}'::bigint[], 10::bigint, true, 'a row nobody has touched is free'),
    (4, '{5}', 10, true, 'so is one whose transaction has ended'),
    (5, '{5,7}', 10, false, 'one of a transaction that runs is not'),
    (7, '{5,7}', 10, false, 'of any of them'),
    (10, '{}', 10, false, 'nor is one of a transaction newer than the snapshot'),
    (12, '{}', 10, false, 'however new'),
    (4294967290, '{}', 5, true, 'an old one from before the corner is free'),
    (5, '{}', 4294967290, false, 'a new one from behind it is not')) v(xmax, busy, next, x, d);

select ok(batchq._is_free(100, 100, array[100]::bigint[], 50), 'what is in our own hands is free');

select * from finish();
rollback;
