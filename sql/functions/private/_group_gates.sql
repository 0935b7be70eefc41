/*
 * Why a job does not get its turn in its group now: for explain_job. rank, place: where it waits.
 * The group's state is read as a lease would, with the calls that are due counted in, up to
 * 10,000 of the queue; jobs before it are counted up to 1,000.
 */
create or replace function batchq._group_gates(
    queue text,
    group_key text,
    rank smallint,
    place bigint,
    is_seated boolean,
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
as $_group_gates$
declare
    v_from constant timestamptz := batchq._instant(batchq._hard_floor(queue, 'round'));
    v_call batchq.group_call;
    v_next timestamptz;
    v_room batchq.group_room;
    v_rate integer;
    v_period interval;
    v_before record;
begin
    select _group_gates.group_key, coalesce(sum(c.seats), 0)::integer,
           coalesce(sum(c.starts), 0)::integer,
           (min(array[c.rank::bigint, c.pos]) filter (where c.pos is not null))[1]::smallint,
           (min(array[c.rank::bigint, c.pos]) filter (where c.pos is not null))[2]
    into v_call
    from (select d.* from batchq.call d
          where d.queue = _group_gates.queue and d.due_at >= v_from and d.due_at <= at
          order by d.due_at
          limit 10000) c
    where c.group_key = _group_gates.group_key;
    select r.* into v_room from batchq._rooms(queue, array[v_call]) r;
    select count(*) as jobs, count(*) filter (where b.ties & 8 = 0) as unseated into v_before
    from (select k.ties from batchq.blocked k
          where k.queue = _group_gates.queue and k.group_key = _group_gates.group_key
            and (k.rank, k.pos) >= (v_room.low_rank, v_room.low_pos)
            and (k.rank, k.pos) < (_group_gates.rank, _group_gates.place)
          order by k.rank, k.pos
          limit 1001) b;
    if v_before.jobs < v_room.most
       and (is_seated or v_before.unseated < v_room.free)
    then
        return;
    end if;
    select q.group_rate, batchq._exact(coalesce(q.group_period, '1 s')) into v_rate, v_period
    from batchq.queue q
    where q.queue = _group_gates.queue;
    if v_room.free <= 0 and not is_seated then
        return query select g.* from batchq._seat_gates(queue, group_key, v_room) g;
    end if;
    if v_rate <= v_room.started then
        select min(c.due_at) into v_next
        from (select d.* from batchq.call d
              where d.queue = _group_gates.queue and d.due_at > at
              order by d.due_at
              limit 10000) c
        where c.group_key = _group_gates.group_key and c.starts > 0;
        return query
        select 'group_rate', true,
               format('group %s may start %s in %s', group_key, v_rate, batchq._seconds(v_period))
               || coalesce(', the next at ' || batchq._stamp(v_next), ''),
               v_next,
               jsonb_build_object('group_key', group_key, 'group_rate', v_rate,
                                  'period_s', extract(epoch from v_period), 'next_at', v_next);
    end if;
    if v_before.jobs > 0 then
        return query select b.* from batchq._behind_gate(
            'group_behind', v_before.jobs, 1000, 'of group ' || group_key) b;
    end if;
end
$_group_gates$;
