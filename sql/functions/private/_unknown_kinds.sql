-- The first 10 of some kinds that no live worker of a queue knows. See _worker_gates.
create or replace function batchq._unknown_kinds(queue text, kinds text[], at timestamptz)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $_unknown_kinds$
begin
    return array(
        select k.kind
        from unnest(_unknown_kinds.kinds) as k(kind)
        except
        select n.kind
        from batchq.worker w, unnest(w.kinds) as n(kind)
        where _unknown_kinds.queue = any(w.queues) and not w.stopping
          and w.drain_requested_at is null
          and w.beat_at > _unknown_kinds.at - interval '90 s'
        order by 1
        limit 10);
end
$_unknown_kinds$;
