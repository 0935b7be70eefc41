-- That ready jobs of a queue go before a place in a lane, counted up to 10,000: for explain_job.
create or replace function batchq._lane_gates(queue text, priority smallint, place bigint)
returns setof batchq.gate
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_lane_gates$
declare
    v_lane record;
    v_count bigint;
    v_higher bigint := 0::bigint;
    v_own bigint := 0::bigint;
    v_gate batchq.gate;
begin
    for v_lane in
        select distinct on (l.priority) l.priority, l.hard_floor
        from (select f.priority, f.hard_floor, f.generation
              from batchq.floor f
              where f.queue = _lane_gates.queue and f.line = 'ready'
              union all
              select 0::smallint, 0, 0) l
        where l.priority >= _lane_gates.priority
        order by l.priority desc, l.generation desc
    loop
        select count(*) into v_count
        from (select from batchq.ready r
              where r.queue = _lane_gates.queue and r.priority = v_lane.priority
                and r.pos >= v_lane.hard_floor
                and r.pos < case when v_lane.priority > _lane_gates.priority
                                 then 9223372036854775807 else _lane_gates.place end
              limit 10001 - v_higher) c;
        if v_lane.priority > priority then
            v_higher := v_higher + v_count;
        else
            v_own := v_count;
        end if;
    end loop;
    if v_higher + v_own > 0 then
        v_gate := batchq._behind_gate('behind', v_higher + v_own, 10000, 'of queue ' || queue);
        if v_higher > 0 and v_own > 0 then
            v_gate.says := v_gate.says || format(', %s of them of a higher priority', v_higher);
        elsif v_higher > 0 then
            v_gate.says := v_gate.says || ', of a higher priority';
        end if;
        v_gate.data := v_gate.data || jsonb_build_object('higher', v_higher, 'own_lane', v_own);
        return next v_gate;
    end if;
end
$_lane_gates$;
