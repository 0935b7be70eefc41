begin;
select plan(86);
\ir ../clock.psql

-- every state
create temporary table cancelled as
select s.state, t.job_in(s.state, 'c-' || s.state, 'K') as id
from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled',
    'purged']) s(state);
select is(t.code(format('select batchq.cancel(%s)', c.id)), x.code,
    format('cancel of a %s job: %s', c.state, x.code))
from cancelled c join (values ('ready', 'ok'), ('scheduled', 'ok'), ('leased', 'ok'),
    ('completed', 'JQ005'), ('failed', 'JQ005'),
                              ('cancelled', 'ok'), ('purged', 'JQ003')) x(state, code) using (state)
                              order by c.state;
select is(t.job(c.id), x.now, format('A-83 a %s job that was cancelled is %s', c.state,
    coalesce(x.now, 'not there')))
from cancelled c join (values ('ready', 'cancelled:0'), ('scheduled', 'cancelled:0'),
    ('leased', 'leased:1'), ('completed', 'completed:1'),
                              ('failed', 'failed:1'), ('cancelled', 'cancelled:0'),
                              ('purged', null)) x(state, now) using (state) order by c.state;
select is(batchq.cancel(c.id), case c.state when 'leased' then 'running' else 'cancelled' end,
          format('asked twice is no error for a job that was %s', c.state))
from cancelled c where c.state in ('ready', 'scheduled', 'leased', 'cancelled') order by c.state;
select throws_ok(format('select batchq.cancel(%L)', v), 'JQ003', null,
    format('job %s is not found', coalesce(v, 'null')))
from unnest(array[null, '0', '-1', '9223372036854775807', '4611686018427387903']) v;
select is(t.take('c-ready') is null and t.take('c-scheduled') is null, true,
    'A-83 a cancelled job is not handed out');
select t.pass('2 h') \g /dev/null
select is(t.take('c-scheduled'), null, 'A-83 nor when its time has come');
select isnt(batchq.enqueue('k', queue => 'c-ready', dedupe_key => 'K'), c.id,
    'F025 its dedupe key is free')
from cancelled c where c.state = 'ready';

select is_empty(format('select * from batchq.dedupe where job_id = %s', c.id),
    'F025 nothing is kept of it')
from cancelled c where c.state in ('ready', 'scheduled') order by c.state;

-- the reason
select batchq.enqueue('k') as a, batchq.enqueue('k') as b \gset
select batchq.cancel(:a, 'not needed'), batchq.cancel(:b, repeat('x', 5000)) \g /dev/null
select is(j.last_error, 'not needed', 'the reason shows') from jobs j where j.id = :a;
select is(j.last_error, repeat('x', 1000), 'at most 1,000 characters of it') from jobs j
    where j.id = :b;
select batchq.cancel(:a, 'another') \g /dev/null
select is(j.last_error, 'not needed', 'the first reason stays') from jobs j where j.id = :a;
select is(j.finished_at, j.updated_at, 'A-58 the view shows when it was cancelled') from jobs j
    where j.id = :a;

select batchq.enqueue('k', queue => 'twice') as a \gset
select l.lease_id as l from batchq.lease('twice') l \gset
select batchq.cancel(:a, 'first') \g /dev/null
select t.pass('1 s') \g /dev/null
select batchq.cancel(:a, 'second') \g /dev/null
select is((t.of(:a)).cancel_requested_at, t.now() - interval '1 s',
    'A-83 a running job that is asked twice keeps the first time');
select batchq.release(:a, :l) \g /dev/null
select is((t.of(:a)).last_error, 'first', 'A-83 and the first reason');

-- a retry, a returned job, a replaced one: each has a place that is not its id
select batchq.enqueue('k', queue => 'back') as a \gset
select batchq.release(l.job_id, l.lease_id) from batchq.lease('back') l \g /dev/null
select is(batchq.cancel(:a), 'cancelled', 'a released job is found in its new place');
select is(t.job(:a) || coalesce(t.take('back'), ' none'), 'cancelled:0 none',
    'and is gone from it');
select batchq.enqueue('k', queue => 'back') as a \gset
select batchq.fail(l.job_id, l.lease_id, 'e1') from batchq.lease('back') l \g /dev/null
select is(batchq.cancel(:a, 'why'), 'cancelled', 'a job that waits for its retry is cancelled');
select is(j.state || ' ' || j.attempts || ' ' || j.last_error, 'cancelled 1 e1',
    'its attempts and error stay') from jobs j where j.id = :a;
select batchq.enqueue('k', queue => 'back', priority => 7) as a \gset
select is(batchq.cancel(:a), 'cancelled', 'a job of any priority is found');

-- running: what ends the attempt decides
select batchq.enqueue('k', queue => 'run-' || n, dedupe_key => 'K')
    from unnest(array['complete', 'fail', 'permanent', 'release', 'snooze', 'reap', 'fail_many',
    'release_many']) n \g /dev/null
create temporary table running as
select n as how, l.* from unnest(array['complete', 'fail', 'permanent', 'release', 'snooze', 'reap',
    'fail_many', 'release_many']) n, lateral batchq.lease('run-' || n, worker => 'w') l;
select is(batchq.cancel(r.job_id, 'stop it'), 'running',
    format('A-83 a running job is asked to stop (%s)', r.how)) from running r;
select is(j.status || ' ' || (j.cancel_requested_at = t.now()), 'running true',
    'A-83 it runs on, and the request shows')
from running r join jobs j on j.id = r.job_id where r.how = 'complete';
select is(e.state, 'cancelled', 'A-83 F081 its next heartbeat tells')
from running r, lateral batchq.extend(array[r.job_id], array[r.lease_id]) e
    where r.how = 'complete';
select is(batchq.complete(r.job_id, r.lease_id), 'completed',
    'A-83 a job that completes all the same is completed') from running r where r.how = 'complete';
select is(batchq.fail(r.job_id, r.lease_id, 'e'), 'cancelled', 'A-83 fail cancels it')
    from running r where r.how = 'fail';
select is(batchq.fail(r.job_id, r.lease_id, 'e', permanent => true), 'cancelled',
    'A-83 so does a permanent one') from running r where r.how = 'permanent';
select is(batchq.release(r.job_id, r.lease_id), 'cancelled', 'A-83 release cancels it')
    from running r where r.how = 'release';
select is(batchq.snooze(r.job_id, r.lease_id, '1 h'), 'cancelled', 'A-83 snooze cancels it')
    from running r where r.how = 'snooze';
select is_empty(format('select * from batchq.fail_many(array[%s], array[%s], array[''e''])',
    r.job_id, r.lease_id), 'fail_many takes it') from running r where r.how = 'fail_many';
select is_empty(format('select * from batchq.release_many(array[%s], array[%s])', r.job_id,
    r.lease_id), 'release_many takes it') from running r where r.how = 'release_many';
select t.pass('2 h') \g /dev/null
select is(batchq.reap(), 2, 'A-83 the leases of the last and of the first case run out');
select is(t.job(r.job_id), case r.how when 'complete' then 'completed:1' else 'cancelled:1' end,
    format('A-83 after %s it is in that state alone', r.how)) from running r order by r.how;
select isnt(batchq.enqueue('k', queue => 'run-' || r.how, dedupe_key => 'K'), r.job_id,
    format('F025 after %s its dedupe key is free', r.how)) from running r;
select is(j.last_error, case r.how when 'complete' then null when 'release' then 'stop it'
    else j.last_error end, format('after %s the reason shows if there is no error', r.how))
from running r join jobs j on j.id = r.job_id where r.how in ('complete', 'release');
select is(batchq.cancel(r.job_id), 'cancelled',
    'cancel of a job that was running and is cancelled is no error') from running r
    where r.how = 'fail';
select throws_ok(format('select batchq.cancel(%s)', r.job_id), 'JQ005', null,
    'A-83 a completed one cannot be cancelled') from running r where r.how = 'complete';
select is(t.message(format('select batchq.cancel(%s)', r.job_id)),
    format('job %s is completed', r.job_id), 'the message says what it is') from running r
    where r.how = 'complete';

-- limits
select batchq.set_queue('g1', group_limit => 1, max_running => 5) \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g') as a,
    batchq.enqueue('k', queue => 'g1', group_key => 'g') as b,
    batchq.enqueue('k', queue => 'g1', group_key => 'g') as c,
    batchq.enqueue('k', queue => 'g1', group_key => 'g') as d \gset
select is(batchq.cancel(:b) || ' ' || t.job(:b), 'cancelled cancelled:0',
    'a blocked job is cancelled at once');
select batchq._admit('g1', 0, 9) \g /dev/null
select is(batchq.cancel(:a) || ' ' || t.take('g1'), 'cancelled ' || :c,
    'F019 a ready one gives its seat to the next');
select is(batchq.cancel(:c) || coalesce(t.take('g1'), ''), 'running',
    'F080 a running one keeps it until it has stopped');
select batchq.fail(:c, t.lease_of(:c), 'stopped') \g /dev/null
select is(t.take('g1'), :'d', 'F080 and no longer');
select batchq.fail(:d, t.lease_of(:d), 'e', retry_in => '1 h') \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g') as e \gset
select is(t.take('g1'), null, 'one that holds its place for its retry');
select is(batchq.cancel(:d) || ' ' || t.take('g1'), 'cancelled ' || :e, 'gives it back, too');
select batchq.cancel(:e), batchq.complete(:e, t.lease_of(:e)) \g /dev/null
select is(t.count('g1') || t.seats('g1') || ' ' || t.free('g1'), '0 5', 'all is free at the end');
select batchq.set_queue('gr', group_rate => 1, group_period => '1 h') \g /dev/null
select batchq.enqueue('k', queue => 'gr', group_key => 'g') as a,
    batchq.enqueue('k', queue => 'gr', group_key => 'g') as b \gset
select batchq._admit('gr', 0, 9), batchq.cancel(:a) \g /dev/null
select is(t.take('gr'), :'b', 'a turn that was not used is given to the next one');

select * from finish();
rollback;
