begin;
select plan(18);
\ir ../clock.psql

select is(batchq._span_fits(v::interval, '0.1 s', '10 years'), x, format('%s: %s', v, x))
from (values ('0.1 s', true), ('0.099999 s', false), ('10 years', true), ('10 years 1 s', false),
             ('0', false), ('-1 s', false), ('1 day', true), ('120 mons', true),
             ('178000000 years', false),
             -- fields that cancel out lead out of the calendar all the same
             ('5000000 years -1800000000 days', false), ('-5000000 years 1800000001 days', false),
             ('1 mon -29 days', true)) v(v, x);
select is(batchq._span_fits(null, '0', '1 s'), null, 'null is for the caller to judge');
select throws_ok(
    format('select batchq.enqueue(''k'', %s => ''5000000 years -1800000000 days'')', v), 'JQ001',
    null, format('F067 %s with fields that cancel out is refused', v))
from unnest(array['delay', 'timeout', 'backoff_base', 'backoff_cap',
                  'dedupe_key => ''x'', dedupe_for']) v;

select * from finish();
rollback;
