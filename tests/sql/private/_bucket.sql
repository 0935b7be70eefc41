begin;
select plan(9);

select is(batchq._bucket(x.seconds), x.bucket, x.said)
from (values (0::double precision, 1, 'nothing is below a millisecond'), (0.001, 1, 'a millisecond is at most one'),
    (0.001001, 2, 'a microsecond more is not'), (0.002, 2, 'two are at most two'), (1, 11, 'a second is at most 1,024 ms'),
    (86400, 28, 'a day'), (134217.728, 28, 'the longest that is counted'), (134217.729, 29, 'longer than any'),
    (null, null, 'nothing known')) x(seconds, bucket, said);

select * from finish();
rollback;
