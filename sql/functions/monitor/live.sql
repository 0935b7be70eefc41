/*
 * What a live view shows, in one statement and one snapshot: however many people watch, somebody
 * asks for all of them.
 */
create or replace function batchq.live(
    job_ids bigint[] default '{}',
    secret_hashes bytea[] default '{}'
)
returns jsonb
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $live$
declare
    v_now constant timestamptz := batchq._now();
    v_depths constant batchq.queue_stats[] := array(select s from batchq.stats() s);
begin
    if coalesce(cardinality(job_ids), 101) > 100 then
        perform batchq._raise('JQ001',
            format('invalid job_ids: %s ids', coalesce(cardinality(job_ids)::text, 'null')),
            'give at most 100');
    end if;
    if coalesce(cardinality(secret_hashes), 10001) > 10000 then
        perform batchq._raise('JQ001',
            format('invalid secret_hashes: %s',
                   coalesce(cardinality(secret_hashes) || ' hashes', 'null')),
            'give at most 10,000');
    end if;
    return jsonb_build_object(
        'at', v_now,
        'has_tokens', batchq.has_tokens(),
        'admitted', array(
            select encode(h.hash, 'hex') from unnest(live.secret_hashes) as h(hash)
            where exists (select from batchq.find_session(h.hash))
               or exists (select from batchq.find_token(h.hash))),
        'queues', to_jsonb(v_depths),
        'rates', array(select r from batchq.queue_rates() r),
        'counters', batchq.counters(),
        'alerts', array(select a from batchq._alerts(v_depths, v_now) a),
        'workers', array(select w from batchq.list_workers() w),
        'jobs', array(
            select jsonb_build_object(
                'job_id', s.job_id, 'queue', s.queue, 'status', s.status, 'state', s.state,
                'attempts', j.attempts, 'max_attempts', j.max_attempts, 'priority', j.priority,
                'run_at', j.run_at, 'updated_at', j.updated_at, 'started_at', j.started_at,
                'finished_at', j.finished_at, 'locked_by', j.locked_by,
                'locked_until', j.locked_until, 'cancel_requested_at', j.cancel_requested_at,
                'progress', j.progress, 'last_error', j.last_error,
                'gates', array(select g from batchq.explain_job(s.job_id) g))
            from batchq.job_states(live.job_ids) s
            cross join lateral batchq.get_job(s.job_id) j));
end
$live$;

comment on function batchq.live is $comment$
What a live view shows, all of one moment: depths, rates, counters, alerts, workers, and some jobs.
For a process that shows it to many; asking once a second is plenty.

job_ids: jobs that are watched, at most 100; those that do not exist are left out. secret_hashes:
SHA-256 of the secrets of the sessions and tokens of those who watch, at most 10,000.

Returns: an object. at: the moment. admitted: those of secret_hashes that are good, in hex;
has_tokens: as has_tokens. queues: as stats; rates: as queue_rates; counters: as counters;
alerts: as list_alerts; workers: as list_workers, of 1,000; jobs: of each what get_job says but for
its payload, headers, result and errors, and gates, as explain_job.
Errors: JQ001 more ids or hashes.
Role: batchq_monitor, and every other role of batchq.
Example: select l ->> 'at', jsonb_array_length(l -> 'alerts') from batchq.live() l
$comment$;
