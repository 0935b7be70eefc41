begin;
select plan(15);
\ir ../clock.psql

select is(batchq._xid_passed(x, o), r, format('xid %s, oldest %s: %s', x, o, r))
from (values (100::bigint, 101::bigint, true), (100, 100, true), (100, 99, false), (2, 5, true),
    (1, 5, true), (0, 5, true), (2, 3000000000, true), (1, 3000000000, true),                 -- frozen ones are below 3
             (4294967290, 5, true), (5, 4294967290, false),
                                                                         -- round the corner
             (100, 4294967396, true), (101, 4294967396, false), (4294967295, 4294967296 + 10, true),
                                -- oldest has an epoch
             (100, 2147483747, true), (100, 2147483748, false)) v(x, o, r);

select * from finish();
rollback;
