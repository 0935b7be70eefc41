/*
 * About which id was new at a time: the lowest one whose job is not older, found by halving, as ids
 * rise with time. Transactions that overlap are seconds out of order, and a clock may be set back,
 * so whoever asks leaves a margin.
 */
create or replace function batchq._id_at(at timestamptz)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_id_at$
declare
    v_low bigint := 0::bigint;
    v_high bigint := batchq._head('ready', null) + 1;
    v_middle bigint;
    v_job record;
begin
    while v_low < v_high loop
        v_middle := (v_low + v_high) / 2;
        select j.id, j.created_at into v_job
        from batchq.job j
        where j.id >= v_middle and j.id < v_high
        order by j.id
        limit 1;
        if not found or v_job.created_at >= _id_at.at then
            v_high := v_middle;
        else
            v_low := v_job.id + 1;
        end if;
    end loop;
    return v_low;
end
$_id_at$;
