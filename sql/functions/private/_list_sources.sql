-- Where a list of jobs has to look: see _list_candidates; 'job' is all that there are. A queue has
-- few dead letters or scheduled jobs if 10,000 is not exceeded; what is consumed of an index is its
-- low end, so they are counted from the high one.
create or replace function batchq._list_sources(filter batchq.job_filter)
returns setof text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_list_sources$
declare
    v_queue constant text := (filter).queue;
    v_state text;
begin
    if (filter).dedupe_key is not null then
        return next 'key';
    elsif (filter).states is null then
        return next 'job';
    else
        foreach v_state in array (filter).states loop
            return next case
                when v_state = 'scheduled' and v_queue is not null and (
                    select count(*) from (select from batchq.scheduled s
                                          where s.queue = v_queue
                                          order by s.run_at desc limit 10001) c) <= 10000
                    then 'few scheduled'
                when v_state = 'failed' and v_queue is not null and (
                    select count(*) from (select from batchq.dead d
                                          where d.queue = v_queue
                                          order by d.failed_at desc limit 10001) c) <= 10000
                    then 'few failed'
                else v_state end;
            if v_state = 'ready' then
                return next 'returned';
            end if;
        end loop;
    end if;
end
$_list_sources$;
