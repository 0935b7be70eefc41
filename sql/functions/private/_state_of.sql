-- The state of a job, or null if there is none of this id. One snapshot, so it is in one place.
create or replace function batchq._state_of(job_id bigint)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_state_of$
declare
    v_segment smallint;
    v_state text;
begin
    select j.segment into v_segment from batchq.job j where j.id = _state_of.job_id;
    if not found then
        return null;
    end if;
    v_state := batchq._live_state(_state_of.job_id, v_segment);
    if v_state is null then
        select 'failed' into v_state from batchq.dead d where d.job_id = _state_of.job_id;
    end if;
    if v_state is null then
        select o.state into v_state
        from batchq.outcome o
        where o.job_id = _state_of.job_id and o.segment = v_segment;
    end if;
    return v_state;
end
$_state_of$;
