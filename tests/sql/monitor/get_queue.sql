begin;
select plan(13);
\ir ../clock.psql

create function t.settings(queue text) returns jsonb language sql as $$
    select jsonb_strip_nulls(to_jsonb(q)) from batchq.get_queue($1) q
$$;
select batchq.enqueue('k', queue => 'used') \g /dev/null
select is(t.settings('used'), '{"queue": "used"}', 'what was not set is null');
select batchq.set_queue('q', 7, '2 h', '5 s', 'fixed', '2 s', 3, '1 h', 'none') \g /dev/null
select is(t.settings('q'), '{"queue": "q", "max_attempts": 7,
    "timeout": "02:00:00", "lease_for": "00:00:05", "backoff": "fixed", "backoff_base": "00:00:02",
    "backoff_factor": 3, "backoff_cap": "01:00:00", "backoff_jitter": "none"}',
    'what set_queue set is shown');
select batchq.set_queue('lim', max_running => 1, rate => 2, rate_period => '3 s',
    group_limit => 4, group_rate => 5, group_period => '6 s', group_retry => 'hold', fair => true,
    age_every => '7 s', max_depth => 8, on_full => 'delay') \g /dev/null
select is(t.settings('lim'), '{"queue": "lim", "max_running": 1, "rate": 2,
    "rate_period": "00:00:03", "group_limit": 4, "group_rate": 5, "group_period": "00:00:06",
    "group_retry": "hold", "fair": true, "age_every": "00:00:07", "max_depth": 8,
    "on_full": "delay"}', 'its limits, too');
select batchq.pause('q', 'why') \g /dev/null
select is(q.paused_at || ' ' || q.pause_reason, t.now() || ' why', 'paused: since when, and why')
    from batchq.get_queue('q') q;
select batchq.resume('q') \g /dev/null
select batchq.set_queue('q', reset => true) \g /dev/null
select is(t.settings('q'), '{"queue": "q"}', 'reset and resumed: nothing is left');
select t.job_in('completed', 'over') \g /dev/null
select is((batchq.get_queue('over')).queue, 'over', 'one that is empty is known');
select throws_ok(format('select batchq.get_queue(%L)', v), 'JQ002', null,
    format('queue %L is not found', left(v, 10)))
    from unnest(array['nobody', '', 'USED', null, repeat('q', 10000)]) v;

set local role batchq_monitor;
select (batchq.get_queue('q')).queue as one \gset
set local role batchq_producer;
select (batchq.get_queue('q')).queue as two \gset
reset role;
select is(:'one'::text, 'q', 'F074 the role batchq_monitor may call it');
select is(:'two'::text, 'q', 'and every other role of batchq');

select * from finish();
rollback;
