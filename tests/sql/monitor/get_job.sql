begin;
select plan(19);
\ir ../clock.psql

select batchq.enqueue('send', '{"to": "ada"}', 'mail', -3, max_attempts => 2, timeout => '9 s',
    dedupe_key => 'K', headers => '{"h": 1}', backoff => 'fixed', backoff_base => '1 s') as a \gset
select is(to_jsonb(j) - array['uuid', 'created_at', 'run_at', 'updated_at'],
          format('{"id": %s, "kind": "send", "queue": "mail", "status": "pending", "state": "ready", "priority": -3, "attempts": 0, "max_attempts": 2, "payload": {"to": "ada"}, "headers": {"h": 1},
                   "dedupe_key": "K", "started_at": null, "finished_at": null, "timeout": "00:00:09", "locked_by": null, "locked_until": null, "cancel_requested_at": null, "progress": null,
                   "result": null, "last_error": null, "errors": [], "group_key": null}', :a)::jsonb, 'B-16 a pending job in full') from batchq.get_job(:a) j;
select is(row(j.created_at, j.run_at, j.updated_at)::text, row(t.now(), t.now(), t.now())::text,
    'A-57 and its times') from batchq.get_job(:a) j;
select is(j.uuid, batchq.job_uuid(:a), 'B-21 and its UUID') from batchq.get_job(:a) j;
select is(j.id, :a::bigint, 'B-21 which finds it')
    from batchq.get_job(batchq.job_id(batchq.job_uuid(:a)::text)) j;
select t.pass('1 s') \g /dev/null
select l.lease_id as l from batchq.lease('mail', worker => 'w1') l \gset
select batchq.progress(:a, :l, '{"done": 1}') \g /dev/null
select batchq.cancel(batchq.enqueue('x')) \g /dev/null
select is(row(j.status, j.state, j.attempts, j.locked_by, j.locked_until - t.now(), j.started_at,
    j.progress, j.updated_at)::text,
          row('running', 'leased', 1, 'w1', interval '60 s', t.now(), '{"done": 1}'::jsonb,
          t.now())::text, 'A-51 B-27 B-28 a running one') from batchq.get_job(:a) j;
select batchq.fail(:a, :l, 'e1') \g /dev/null
select is(row(j.status, j.state, j.attempts, j.last_error, j.run_at - t.now(),
    jsonb_array_length(j.errors))::text,
    row('pending', 'scheduled', 1, 'e1', interval '1 s', 1)::text,
    'A-18 one that waits for its retry') from batchq.get_job(:a) j;
select t.pass('1 s') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e2')
    from batchq.lease('mail', worker => 'w2') l \g /dev/null
select is(row(j.status, j.state, j.attempts, j.last_error, j.finished_at, j.payload)::text,
    row('failed', 'failed', 2, 'e2', t.now(), '{"to": "ada"}'::jsonb)::text,
    'B-34 A-22 a dead letter has payload, errors and attempts') from batchq.get_job(:a) j;
select is((select string_agg(concat_ws(' ', e ->> 'attempt', e ->> 'error', e ->> 'worker',
    (e ->> 'failed_at')::timestamptz - t.now()), ', ') from batchq.get_job(:a) j,
    jsonb_array_elements(j.errors) e),
          '2 e2 w2 00:00:00, 1 e1 w1 -00:00:01',
          'A-16 B-34 the error of each attempt, newest first');
select batchq.redrive(array[:a]) \g /dev/null
select batchq.complete(l.job_id, l.lease_id, '{"n": 5}') from batchq.lease('mail') l \g /dev/null
select is(row(j.status, j.result, j.attempts, j.finished_at, jsonb_array_length(j.errors),
    j.last_error)::text, row('completed', '{"n": 5}'::jsonb, 1, t.now(), 2, 'e2')::text,
    'A-16 B-16 a completed one, with its result') from batchq.get_job(:a) j;
select batchq.enqueue('k', queue => 'many', max_attempts => 200) as a \gset
select batchq.fail(l.job_id, l.lease_id, 'e' || i, retry_in => '0') from generate_series(1, 120) i,
    lateral (select * from batchq.lease('many', 1 + 0 * i)) l \g /dev/null
select is(jsonb_array_length(j.errors) || ' ' || (j.errors -> 0 ->> 'error') || ' ' || j.attempts,
    '100 e120 120', 'A-16 at most the newest 100 errors are told') from batchq.get_job(:a) j;
select batchq.enqueue('k', queue => 'stop') as a \gset
select batchq.lease('stop') \g /dev/null
select batchq.cancel(:a, 'why') \g /dev/null
select is(j.cancel_requested_at, t.now(), 'A-83 a request to stop shows') from batchq.get_job(:a) j;
select throws_ok(format('select batchq.get_job(%L)', v), 'JQ003', null,
    format('B-16 job %s is not found', coalesce(v, 'null')))
    from unnest(array[null, '0', '-1', '9223372036854775807', '4611686018427387904']) v;

select batchq.set_queue('g', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => 'a') as a,
    batchq.enqueue('k', queue => 'g', group_key => 'a') as b \gset
select is(j.status || ' ' || j.state || ' ' || j.group_key, 'pending blocked a',
    'C-21 a job that waits in its group') from batchq.get_job(:b) j;
select t.count('g') \g /dev/null
select is((select j.state from batchq.get_job(:a) j) || ' ' || (select j.state from batchq.get_job(:b) j),
    'leased blocked', 'it waits while another one runs');
select batchq.complete(:a, t.lease_of(:a)), batchq._admit('g', 0, 9) \g /dev/null
select is((select j.state from batchq.get_job(:b) j), 'ready', 'then it is ready');

select * from finish();
rollback;
