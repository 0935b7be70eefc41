begin;
select plan(11);
\ir ../clock.psql

-- months and days become hours, so that adding one to an instant asks no calendar and no TimeZone
set local timezone = 'Europe/Berlin';
select is('2026-03-28 12:00:00+00'::timestamptz + batchq._exact(v::interval), x::timestamptz,
          format('%s from the eve of a day of 23 hours', v))
from (values ('1 day', '2026-03-29 12:00:00+00'), ('24 h', '2026-03-29 12:00:00+00'),
             ('-1 day', '2026-03-27 12:00:00+00'), ('2 weeks', '2026-04-11 12:00:00+00'),
             ('1 mon', '2026-04-27 12:00:00+00'), ('1.5 s', '2026-03-28 12:00:01.5+00'),
             ('0', '2026-03-28 12:00:00+00')) v(v, x);
reset timezone;
select is(batchq._exact(null), null, 'null is null');
select is(batchq._exact(v::interval), v::interval, format('%s keeps its microseconds', v))
from unnest(array['0.000001 s', '87600:00:00.000001', '-0.000001 s']) v;

select * from finish();
rollback;
