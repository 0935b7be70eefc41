/*
 * Cancelling many: jobs are looked for without a lock, lowest ids first, then taken where they were
 * found. Rows that others hold are skipped, so this waits for nobody and no order of locks can
 * deadlock. What was skipped, or had moved since it was looked for, is looked for once more at the
 * end; what is still held then is counted as deferred.
 *
 * A dry run locks nothing: a lease that comes by meanwhile would skip what is locked and sleep.
 */
create or replace function batchq.cancel_many(
    job_ids bigint[] default null,
    queue text default null,
    kind text default null,
    state text default null,
    created_after timestamptz default null,
    created_before timestamptz default null,
    reason text default null,
    n integer default 1000,
    dry_run boolean default false,
    after_id bigint default null
)
returns batchq.cancelled_jobs
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $cancel_many$
declare
    v_states constant text[] := case
        when state is null then array['ready', 'scheduled', 'blocked', 'leased']
        when state = 'pending' then array['ready', 'scheduled', 'blocked']
        when state in ('running', 'processing') then array['leased']
        else array[state] end;
    v_only_count constant boolean := dry_run is distinct from false;
    v_wanted bigint[] := job_ids;
    v_missed bigint[];
    v_found batchq.found_job[];
    v_taken batchq.found_job[];
    v_after bigint;
    v_left integer;
    v_done batchq.cancelled_jobs := row(0::bigint, 0::bigint, 0::bigint, null::bigint);
begin
    perform batchq._check_cancel(
        job_ids, state, num_nonnulls(queue, kind, state, created_after, created_before) > 0, n);
    for v_look in 1..2 loop
        v_missed := '{}';
        v_after := coalesce(after_id, 0);
        loop
            v_left := (n - v_done.cancelled - v_done.asked)::integer;
            v_found := array(
                select row(f.job_id, f.state, f.place)::batchq.found_job
                from batchq._cancellable(v_states, v_wanted, queue, kind, created_after,
                                         created_before, v_left, v_after) f
                order by f.job_id);
            if v_only_count then
                v_taken := v_found;
            else
                v_taken := array(
                    select row(t.job_id, t.state, t.place)::batchq.found_job
                    from batchq._cancel_found(v_found, reason) t);
                v_missed := v_missed || array(
                    select f.job_id from unnest(v_found) f
                    where f.job_id not in (select t.job_id from unnest(v_taken) t));
            end if;
            select v_done.cancelled + count(*) filter (where t.state <> 'leased'),
                   v_done.asked + count(*) filter (where t.state = 'leased')
            into v_done.cancelled, v_done.asked
            from unnest(v_taken) t;
            v_after := v_found[v_left].job_id;   -- null: no more of them
            if v_look = 1 then
                v_done.last_id := v_after;
            end if;
            exit when v_after is null or v_only_count or cardinality(v_taken) = v_left
                      or cardinality(v_missed) >= 100000;
        end loop;
        exit when v_missed = '{}' or v_done.cancelled + v_done.asked = n;
        v_wanted := v_missed;
    end loop;
    v_done.deferred := cardinality(v_missed)::bigint;
    if not v_only_count then
        perform batchq._audit_many(
            'cancel_many', v_done.cancelled + v_done.asked, queue, job_ids, jsonb_build_object(
                'kind', kind, 'state', state, 'created_after', created_after,
                'created_before', created_before, 'reason', left(reason, 1000)));
        if v_done.asked > 0 then
            perform pg_notify('batchq', 'cancel');
        end if;
    end if;
    return v_done;
end
$cancel_many$;

comment on function batchq.cancel_many is $comment$
Cancel many jobs, as cancel does for one: pending jobs are cancelled at once and never run, running
ones are asked to stop, and one notification makes their workers look at once. Jobs that are over,
and running ones that were asked before, are left alone and not counted. PREPARE TRANSACTION
refuses a transaction that asked a running job.

job_ids: these jobs, at most 100,000; queue, kind, state, created_after (inclusive), created_before
(exclusive): those that match all that are given. Something must be given: all that there is now
is created_before => now(). state: ready, scheduled, blocked or leased; pending stands for the
first three, running (or processing) for the last. reason: kept with each job, at most 1000
characters. n: at most so many a call, 1 to 100,000, lowest ids first. after_id: only beyond this
id: go on with last_id of the call before, until that is null; so a call costs the same however
many went before. dry_run: only count.

Returns: cancelled_jobs: how many were cancelled, how many were asked to stop, where to go on, and
how many match but were deferred, as somebody was leasing or settling them just then: begin again
for those.
Errors: JQ003 a job of job_ids does not exist; JQ001 state, n or job_ids is out of its bounds, or
nothing was given.
Role: batchq_operator.
Example: select * from batchq.cancel_many(queue => 'mail', state => 'pending', reason => 'too late')
$comment$;
