begin;
select plan(17);
\ir ../clock.psql

select throws_ok(format('select batchq.set_queue(''q'', %s)', v), 'JQ001', null,
    format('D-6 %s is refused', v))
from unnest(array['breaker_share => 0', 'breaker_share => 1.01', 'breaker_share => -1',
    'breaker_share => ''NaN''', 'breaker_min => 0', 'breaker_min => 1001',
    'breaker_window => ''999 ms''', 'breaker_window => ''1 h 1 s''',
    'breaker_pause => ''999 ms''', 'breaker_pause => ''1 day 1 s''']) v;
select lives_ok(format('select batchq.set_queue(''q'', %s)', v), format('%s is taken', v))
from unnest(array['breaker_share => 1e-9', 'breaker_share => 1', 'breaker_min => 1000',
    'breaker_window => ''1 h''', 'breaker_pause => ''1 day''']) v;
select is((select row(q.breaker_share, q.breaker_min, q.breaker_window, q.breaker_pause)::text
           from batchq.get_queue('q') q), '(1,1000,01:00:00,"1 day")', 'they can be read');
select batchq.set_queue('q', clear => '{breaker_share,breaker_min,breaker_window,breaker_pause}')
    \g /dev/null
select is((select row(q.breaker_share, q.breaker_min, q.breaker_window, q.breaker_pause)::text
           from batchq.get_queue('q') q), '(,,,)', 'and set to none');

select * from finish();
rollback;
