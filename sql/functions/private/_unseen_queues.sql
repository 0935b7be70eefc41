/*
 * Queues that have ready jobs but no floor row, as nobody has leased from them yet. Only the gaps
 * between the known queues are probed, so the dead entries of a drained queue are not walked.
 */
create or replace function batchq._unseen_queues()
returns setof text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $_unseen_queues$
declare
    v_known text[];
    v_above text;                                -- null: no end
    v_below text;
    v_found text;
begin
    select array_agg(distinct f.queue order by f.queue desc) into v_known
    from batchq.floor f;                         -- ends with '', the queue of leased
    foreach v_below in array v_known loop
        loop
            if v_above is null then
                select r.queue into v_found
                from batchq.ready r
                where r.queue > v_below
                order by r.queue desc
                limit 1;
            else
                select r.queue into v_found
                from batchq.ready r
                where r.queue > v_below and r.queue < v_above
                order by r.queue desc
                limit 1;
            end if;
            exit when not found;
            return next v_found;
            v_above := v_found;
        end loop;
        v_above := v_below;
    end loop;
end
$_unseen_queues$;
