-- How many jobs of a queue wait, and whether enqueue refuses or delays more, counted up to 5,000:
-- for explain_queue. A max_depth above that is counted up to, as enqueue does.
create or replace function batchq._depth_gates(queue text, held boolean)
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
as $_depth_gates$
declare
    v_most constant integer := 5000;
    v_from constant timestamptz := batchq._instant(batchq._hard_floor(queue, 'scheduled'));
    v_ready constant integer := batchq._ready_depth(queue, v_most + 1);
    v_scheduled integer;
    v_blocked integer;
    v_told text;
    v_full record;
begin
    select count(*)::integer into v_scheduled
    from (select from batchq.scheduled s
          where s.queue = _depth_gates.queue and s.run_at >= v_from
          limit v_most + 1) c;
    select count(*)::integer into v_blocked
    from (select from batchq.blocked b
          where b.queue = _depth_gates.queue
          limit v_most + 1) c;
    v_told := (
        select string_agg(
            case when c.jobs > v_most then 'more than ' || v_most else c.jobs::text end
            || ' ' || c.state, ', ' order by c.place)
        from (values (1, 'ready', v_ready), (2, 'scheduled', v_scheduled),
                     (3, 'blocked', v_blocked)) as c(place, state, jobs));
    return query
    select 'depth', false,
           case when held then '' else format('nothing holds queue %s back: ', queue) end || v_told,
           null::timestamptz,
           jsonb_build_object(
               'ready', least(v_ready, v_most), 'scheduled', least(v_scheduled, v_most),
               'blocked', least(v_blocked, v_most),
               'is_exact', greatest(v_ready, v_scheduled, v_blocked) <= v_most);
    select q.max_depth, coalesce(q.on_full, 'refuse') as on_full into v_full
    from batchq.queue q
    where q.queue = _depth_gates.queue;
    if v_full.max_depth <= v_ready + v_blocked
       or greatest(v_ready, v_blocked) > v_most and v_full.max_depth is not null
          and v_full.max_depth <= batchq._depth(queue, v_full.max_depth)
    then
        return query
        select 'full', false,
               format('queue %s is full, %s jobs may wait: enqueue %s more', queue,
                      v_full.max_depth, v_full.on_full || 's'),
               null::timestamptz,
               jsonb_build_object('max_depth', v_full.max_depth, 'on_full', v_full.on_full);
    end if;
end
$_depth_gates$;
