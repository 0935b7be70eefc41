begin;
select plan(10);

select is(batchq._is_new(x.xid, 100, '{90,95}', 200, '{95,150}'), x.counts, x.said)
from (values (89, false, 'below the known mark: counted before'),
    (90, true, 'left out then, over now'), (95, false, 'left out then and still running'),
    (99, false, 'just below the known mark'), (100, true, 'the first one beyond it'),
    (149, true, 'over'), (150, false, 'runs'), (199, true, 'the last one below the mark'),
    (200, false, 'not below the mark'), (1000, false, 'far beyond it')) x(xid, counts, said);

select * from finish();
rollback;
