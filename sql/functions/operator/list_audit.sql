-- Listing what operators did, newest first, by keyset: each page is read from an index.
create or replace function batchq.list_audit(
    n integer default 100,
    before_id bigint default null,
    target text default null
)
returns setof batchq.audit_entry
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $list_audit$
declare
    v_before constant bigint := coalesce(before_id, 9223372036854775807);
begin
    if not coalesce(n between 1 and 1000, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 1,000');
    end if;
    if target is null then
        return query
        select a.audit_id, a.at, a.actor, a.db_user, a.action::text, a.target::text, a.details
        from batchq.audit a
        where a.audit_id < v_before
        order by a.audit_id desc
        limit list_audit.n;
    else
        return query
        select a.audit_id, a.at, a.actor, a.db_user, a.action::text, a.target::text, a.details
        from batchq.audit a
        where a.target = list_audit.target and a.audit_id < v_before
        order by a.audit_id desc
        limit list_audit.n;
    end if;
end
$list_audit$;

comment on function batchq.list_audit is $comment$
What operators did in the last 90 days, newest first: settings, pauses, jobs that were changed,
tokens, workers asked to drain. A call that found nothing to do, and a dry run, left nothing.

n: 1 to 1,000. before_id: the next page: the lowest audit_id of this one. target: of this one only,
written as 'queue mail', 'job 7', 'token shop' or 'worker ' and its worker_id.

Returns: audit_entry rows. actor: who was named by act_as, else the database's user; db_user: that
user in any case. action: the function. details: what was given to it, and the count of jobs where
there may be many; of more than 100 job_ids the first 100, and how many were given.
Errors: JQ001 n is out of its bounds.
Role: batchq_operator, batchq_monitor.
Example: select at, actor, action, details from batchq.list_audit(target => 'queue mail')
$comment$;
