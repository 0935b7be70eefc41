/*
 * Bring the waiting jobs of a queue in line with its new settings of groups, and call their groups
 * to be looked at. Where groups are limited from now on, jobs that are ready begin to wait for
 * their turn; those that run have no seat. Where one may run at a time from now on, or no longer,
 * waiting jobs take the rank that new ones get, so that neither overtake the others. Rows that
 * somebody is taking are left alone, so nobody is waited for.
 */
create or replace function batchq._fit_groups(old batchq.queue, new batchq.queue)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_fit_groups$
begin
    perform pg_current_xact_id(), batchq._add_line((new).queue, 'round', 0::smallint);
    if not (old).grouped then
        perform batchq._gather((new).queue);
    end if;
    if ((old).group_limit = 1) is distinct from ((new).group_limit = 1) then
        with waiting as materialized (
            select b.ctid as place,
                   case when (new).group_limit = 1 then 0
                        else -greatest(b.priority, -32767) end::smallint as rank
            from batchq.blocked b
            where b.queue = (new).queue and b.ties & 8 = 0
            for update skip locked
        )
        update batchq.blocked b set rank = w.rank
        from waiting w
        where b.ctid = w.place and b.rank <> w.rank;
    end if;
    insert into batchq.call (due_at, queue, group_key, rank, pos)
    select batchq._now(), (new).queue, f.group_key, f.first[1], f.first[2]
    from (select b.group_key, min(array[b.rank::bigint, b.pos]) as first
          from batchq.blocked b
          where b.queue = (new).queue
          group by b.group_key) f;
end
$_fit_groups$;
