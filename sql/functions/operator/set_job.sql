/*
 * Changing one pending job: its narrow row leaves and comes anew, so a lease whose snapshot is
 * older than this change skips it. Waits for a lease of this very job that is under way.
 *
 * A job may move while it is looked for, so the look is repeated until it is found.
 */
create or replace function batchq.set_job(
    job_id bigint,
    priority integer default null,
    run_at timestamptz default null
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
as $set_job$
declare
    v_state text;
begin
    perform batchq._check_change(priority, run_at);
    for v_try in 1..100 loop
        v_state := batchq._state_of(job_id);
        case v_state
            when 'ready' then
                v_state := batchq._change_ready(job_id, priority, run_at);
            when 'scheduled' then
                v_state := batchq._change_scheduled(job_id, priority, run_at);
            when 'blocked' then
                if run_at is not null then
                    perform batchq._raise('JQ005',
                        format('job %s waits for its turn in its group', job_id),
                        'it is due already: give a priority, or let more of the group run');
                end if;
                v_state := batchq._change_blocked(job_id, priority);
            when 'leased', 'completed', 'failed', 'cancelled' then
                perform batchq._raise('JQ005',
                    format('job %s is %s', job_id, replace(v_state, 'leased', 'running')),
                    'only a pending job can be changed; redrive puts a failed one back');
            else
                perform batchq._job_not_found(job_id);
        end case;
        if v_state is not null then
            perform batchq._ring(j.queue) from batchq.job j where j.id = set_job.job_id;
            perform batchq._audit('set_job', 'job ' || job_id, jsonb_build_object(
                'priority', priority, 'run_at', run_at));
            return v_state;
        end if;
    end loop;
    raise exception 'job % moves too fast to be changed', job_id
        using errcode = 'serialization_failure', hint = 'try again';
end
$set_job$;

comment on function batchq.set_job is $comment$
Change one pending job: its priority, when it runs, or both. What is null stays as it is.

job_id: the job. priority: -32768 to 32767, higher first. run_at: not before this time; one that has
passed, or now, is as soon as there is a worker for it.

A ready job that takes another priority stands behind the others that have it. A job that is put off
gives up its turn in its group. One that is blocked, as others of its group go first, is due: it may
take another priority, which counts among its group, but no time.

Returns: its state: ready; scheduled, also where it is due and the next lease makes it ready; or
blocked.
Errors: JQ003 no such job; JQ005 it is not pending, or is blocked and a time is given; JQ001 a value
is out of its bounds, or nothing is given.
Role: batchq_operator.
Example: select batchq.set_job(batchq.enqueue('report', delay => '1 h'), run_at => now())
$comment$;
