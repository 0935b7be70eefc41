/*
 * Admission: groups of a queue that were called give their next jobs, as many as they have seats
 * and permits to start.
 *
 * Each step is a statement of its own, with a snapshot of its own: the groups' states are read
 * when their locks were had, so whoever had a lock before has committed what he did. A state is
 * not updated but written anew, and read from the newest down, so that dead versions kept by an
 * old snapshot are never walked. Returns how many jobs became ready.
 *
 * The xid comes before nextval and the clock: the floors depend on it.
 */
create or replace function batchq._admit(queue text, from_place bigint, n integer)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_admit$
declare
    v_calls batchq.group_call[];
    v_rooms batchq.group_room[];
    v_turns batchq.group_turn[];
    v_admitted integer;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return 0;                                -- one old snapshot for all: states cannot be told
    end if;
    perform pg_current_xact_id();
    v_calls := array(
        select c from batchq._take_calls(_admit.queue, _admit.from_place, _admit.n) c);
    if v_calls = '{}' then
        return 0;
    end if;
    v_rooms := array(select r from batchq._rooms(_admit.queue, v_calls) r);
    v_turns := array(select t from batchq._take_turns(_admit.queue, v_rooms) t);
    insert into batchq.group_state (low_pos, low_rank, seated, started, written_at, queue,
                                    group_key)
    select t.low_pos, t.low_rank, t.seated, t.started, batchq._now(), _admit.queue, t.group_key
    from unnest(v_turns) t;
    with old as materialized (
        select m.place
        from unnest(v_turns) t
        cross join lateral (
            select s.ctid as place
            from batchq.group_state s
            where s.queue = _admit.queue and s.group_key = t.group_key collate "C"
              and s.generation = t.generation
            limit 1
            for update skip locked) m            -- upkeep may be forgetting it: it was at rest
    )
    delete from batchq.group_state s using old o where s.ctid = o.place;
    insert into batchq.call (due_at, queue, group_key)
    select batchq._now() + t.again_in, _admit.queue, t.group_key
    from unnest(v_turns) t
    where t.again_in is not null;
    select sum(t.admitted)::integer into v_admitted from unnest(v_turns) t;
    if v_admitted > 0 then
        perform batchq._add_lanes(_admit.queue);
    end if;
    return v_admitted;
end
$_admit$;
