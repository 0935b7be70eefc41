-- Kinds that no live worker of a queue knows, among 300 ready, 300 scheduled and 300 blocked jobs:
-- for explain_queue. A worker puts off what it does not know, so it may be scheduled. None if there
-- is no live worker at all.
create or replace function batchq._kind_gates(queue text, at timestamptz)
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
as $_kind_gates$
declare
    v_from constant timestamptz := batchq._instant(batchq._hard_floor(queue, 'scheduled'));
    v_waiting text[];
    v_kind text;
begin
    v_waiting := array(
        select distinct j.kind
        from (select r.job_id, r.segment
              from batchq._next_ready(_kind_gates.queue, 300) r
              union all
              (select s.job_id, s.segment
               from batchq.scheduled s
               where s.queue = _kind_gates.queue and s.run_at >= v_from
               order by s.run_at
               limit 300)
              union all
              (select b.job_id, b.segment
               from batchq.blocked b
               where b.queue = _kind_gates.queue
               limit 300)) w
        cross join lateral (
            select o.kind from batchq.job o
            where o.id = w.job_id and o.segment = w.segment
            limit 1) j
        order by j.kind
        limit 1000);
    foreach v_kind in array batchq._unknown_kinds(queue, v_waiting, at) loop
        return query
        select g.* from batchq._worker_gates(queue, v_kind, at) g where g.gate = 'kind';
    end loop;
end
$_kind_gates$;
