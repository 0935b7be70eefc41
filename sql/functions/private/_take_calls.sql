/*
 * Take the calls of a queue that are due, for groups whose lock is to be had; it is held to the
 * end of this transaction. Returns what the calls say, one row a group. Calls of a group that
 * somebody else has locked stay for later, so nobody waits.
 *
 * 1651572531 is the lock's class. Two groups of one hash share a lock, which may put one off.
 */
create or replace function batchq._take_calls(queue text, from_place bigint, n integer)
returns setof batchq.group_call
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $_take_calls$
declare
    v_now constant timestamptz := batchq._now();
begin
    return query
    with due as materialized (
        select c.ctid,
               pg_try_advisory_xact_lock(1651572531, hashtext(
                   (_take_calls.queue || e'\x01' || c.group_key) collate "C")) as got
        from (
            select c.ctid, c.group_key
            from batchq.call c
            where c.queue = _take_calls.queue
              and c.due_at >= batchq._instant(_take_calls.from_place)
              and c.due_at <= v_now
            order by c.due_at, c.call_id
            limit _take_calls.n
            for update skip locked
        ) c
    ),
    gone as (
        delete from batchq.call c using due d where d.got and c.ctid = d.ctid
        returning c.*
    )
    select g.group_key::text, sum(g.seats)::integer, sum(g.starts)::integer,
           (min(array[g.rank::bigint, g.pos]) filter (where g.pos is not null))[1]::smallint,
           (min(array[g.rank::bigint, g.pos]) filter (where g.pos is not null))[2]
    from gone g
    group by g.group_key;
end
$_take_calls$;
