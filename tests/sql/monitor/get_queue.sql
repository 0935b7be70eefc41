begin;
select plan(12);
\ir ../clock.psql

create function t.settings(queue text) returns text language sql as $$
    select row(q.*)::text from batchq.get_queue($1) q
$$;
select batchq.enqueue('k', queue => 'used') \g /dev/null
select is(t.settings('used'), '(used,,,,,,,,,,)', 'what was not set is null');
select batchq.set_queue('q', 7, '2 h', '5 s', 'fixed', '2 s', 3, '1 h', 'none') \g /dev/null
select is(t.settings('q'), '(q,7,02:00:00,00:00:05,fixed,00:00:02,3,01:00:00,none,,)',
    'what set_queue set is shown');
select batchq.pause('q', 'why') \g /dev/null
select is(q.paused_at || ' ' || q.pause_reason, t.now() || ' why', 'paused: since when, and why')
    from batchq.get_queue('q') q;
select batchq.resume('q') \g /dev/null
select batchq.set_queue('q', reset => true) \g /dev/null
select is(t.settings('q'), '(q,,,,,,,,,,)', 'reset and resumed: nothing is left');
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
