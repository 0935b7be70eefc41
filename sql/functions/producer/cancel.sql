/*
 * Cancelling: a pending job leaves at once; a running one is asked to stop. The request is data,
 * told by the next heartbeat; the notification only makes that heartbeat come at once, so it may
 * be lost. It is sent for the first request alone.
 *
 * A job may move while it is looked for, so the look is repeated until it is found. Waits for a
 * lease or settlement of this very job that is under way.
 */
create or replace function batchq.cancel(job_id bigint, reason text default null)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $cancel$
declare
    v_now constant timestamptz := batchq._now();
    v_state text;
    v_gone record;
    v_asked_at timestamptz;
begin
    for v_try in 1..100 loop
        v_state := batchq._state_of(cancel.job_id);
        case v_state
            when 'ready', 'scheduled', 'blocked' then
                select p.* into v_gone from batchq._take_pending(cancel.job_id, v_state) p;
                if v_gone.job_id is not null then
                    insert into batchq.outcome (job_id, finished_at, segment, attempt, state,
                                                reason)
                    values (v_gone.job_id, v_now, v_gone.segment, v_gone.attempt, 'cancelled',
                            left(cancel.reason, 1000));
                    perform batchq._audit_cancel(job_id, reason);
                    if v_gone.ties <> 0 then
                        perform batchq._untie(array[row(
                            v_gone.job_id, v_gone.segment, v_gone.ties, v_gone.queue,
                            null)::batchq.tie]);
                    end if;
                    return 'cancelled';
                end if;
            when 'leased' then
                update batchq.leased l
                set cancel_requested_at = coalesce(l.cancel_requested_at, v_now),
                    cancel_reason = coalesce(l.cancel_reason, left(cancel.reason, 1000))
                where l.job_id = cancel.job_id
                returning l.cancel_requested_at into v_asked_at;
                if found then
                    if v_asked_at = v_now then
                        perform batchq._audit_cancel(job_id, reason);
                        perform pg_notify('batchq', 'cancel');
                    end if;
                    return 'running';
                end if;
            when 'cancelled' then
                return 'cancelled';
            when 'completed', 'failed' then
                perform batchq._raise('JQ005', format('job %s is %s', cancel.job_id, v_state),
                    'only a pending or running job can be cancelled');
            else
                perform batchq._job_not_found(cancel.job_id);
        end case;
    end loop;
    raise exception 'job % moves too fast to be cancelled', cancel.job_id
        using errcode = 'serialization_failure', hint = 'try again';
end
$cancel$;

comment on function batchq.cancel is $comment$
Cancel a job. A pending job is cancelled at once and never runs; a running one is asked to stop:
its worker learns it by the next extend, and it is cancelled when that attempt ends by fail,
release or an expired lease. A job that completes all the same is completed. When a running job is
asked for the first time, NOTIFY on channel batchq with payload 'cancel' tells workers to extend at
once; PREPARE TRANSACTION refuses a transaction that did this.

job_id: the job. reason: kept with the job, at most 1000 characters.

Returns: 'cancelled', also if it already was; 'running' if it was asked to stop.
Errors: JQ003 no such job; JQ005 the job is completed or failed.
Role: batchq_producer.
Example: select batchq.cancel(batchq.enqueue('report', delay => '1 h'), reason => 'not needed')
$comment$;
