/*
 * Every gate that holds a job back which is not over and does not run: the nearest first. A job
 * that is scheduled and due is looked at as it would stand after the next lease made it ready.
 */
create or replace function batchq._waiting_gates(
    job_id bigint,
    queue text,
    kind text,
    priority smallint,
    group_key text,
    is_due boolean,
    at timestamptz
)
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
as $_waiting_gates$
declare
    v_last constant bigint := 9223372036854775807;
    v_place bigint;
    v_turn record;
    v_in_turn boolean := is_due;
begin
    return query select g.* from batchq._pause_gates(queue) g;
    return query select g.* from batchq._breaker_gates(queue, kind, at) g;
    if is_due then
        select b.rank::integer as rank, b.pos, b.ties into v_turn
        from batchq.blocked b
        where b.job_id = _waiting_gates.job_id;
        if not found then
            select case when s.ties & 8 <> 0 then -32768
                        else coalesce(batchq._rank(s.queue, s.priority::integer),
                                      -greatest(s.priority, -32767)) end as rank,
                   v_last as pos, s.ties
            into v_turn
            from batchq.scheduled s
            where s.job_id = _waiting_gates.job_id and s.ties & 4 <> 0
              and (s.ties & 8 = 0 or batchq._is_paced(s.queue));
        end if;
        if v_turn.rank is not null then
            return query
            select g.* from batchq._group_gates(
                queue, group_key, v_turn.rank::smallint, v_turn.pos, v_turn.ties & 8 <> 0, at) g;
            v_in_turn := not found;
        end if;
    end if;
    return query select g.* from batchq._limit_gates(queue, at) g;
    return query select g.* from batchq._worker_gates(queue, kind, at) g;
    if v_in_turn then
        select r.pos into v_place
        from batchq.ready r
        where r.queue = _waiting_gates.queue and r.priority = _waiting_gates.priority
          and r.pos = _waiting_gates.job_id and r.job_id = _waiting_gates.job_id;
        if not found then
            select r.pos into v_place
            from batchq.ready r
            where r.job_id = _waiting_gates.job_id and r.pos <> r.job_id;
        end if;
        return query
        select g.* from batchq._lane_gates(queue, priority, coalesce(v_place, v_last)) g;
    end if;
end
$_waiting_gates$;
