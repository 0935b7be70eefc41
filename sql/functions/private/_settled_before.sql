/*
 * Whether this very lease ended before, in a settlement that was asked for twice: the state it
 * led to, or null. A lease that was taken back is lost, not settled. Looks into every segment, so
 * it is for the slow path only.
 */
create or replace function batchq._settled_before(job_id bigint, lease_id bigint)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
as $_settled_before$
declare
    v_state text;
begin
    select o.state into v_state
    from batchq.outcome o
    where o.job_id = _settled_before.job_id and o.lease_id = _settled_before.lease_id
      and not exists (select from batchq.error e
                      where e.job_id = o.job_id and e.lease_id = o.lease_id and e.expired);
    if not found then
        select 'failed' into v_state
        from batchq.error e
        where e.job_id = _settled_before.job_id and e.lease_id = _settled_before.lease_id
          and not e.expired;
    end if;
    return v_state;
end
$_settled_before$;
