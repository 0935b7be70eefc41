/*
 * Prove for queues with groups that no seat and no permit to start was lost or given twice, and
 * call the group that is wrong so that it is put right; call groups whose jobs wait although no
 * one has a seat; forget groups that are at rest for a minute. Returns how many were wrong, which
 * would be our bug.
 */
create or replace function batchq._check_groups()
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set jit = off
as $_check_groups$
declare
    v_queue text;
    v_wrong bigint;
    v_sum bigint := 0::bigint;
begin
    perform pg_current_xact_id();
    for v_queue in
        select q.queue from batchq.queue q where q.grouped order by q.queue
    loop
        with wrong as (
            insert into batchq.call (due_at, queue, group_key, seats, starts)
            select batchq._now(), v_queue, s.group_key, s.believed - s.taken,
                   s.starts_believed - s.starts_taken
            from batchq._seats(v_queue) s
            where s.believed <> s.taken or s.starts_believed <> s.starts_taken
            returning abs(seats) + abs(starts) as off
        )
        select coalesce(sum(w.off), 0) into v_wrong from wrong w;
        if v_wrong > 0 then
            raise warning 'batchq: % seats or starts of groups of queue "%" were wrong',
                v_wrong, v_queue
                using hint = 'they are put right now; please report this as a bug of batchq';
        end if;
        v_sum := v_sum + v_wrong;
        insert into batchq.call (due_at, queue, group_key, rank, pos)
        select batchq._now(), v_queue, b.group_key, b.first[1], b.first[2]
        from (select w.group_key, min(array[w.rank::bigint, w.pos]) as first
              from batchq.blocked w
              where w.queue = v_queue
              group by w.group_key) b
        left join batchq._seats(v_queue) s on s.group_key = b.group_key
        where coalesce(s.believed, 0) = 0;
    end loop;
    with rest as materialized (
        select s.ctid
        from batchq.group_state s
        where s.seated = 0 and s.started = 0 and s.written_at < batchq._now() - interval '60 s'
        for update skip locked
    )
    delete from batchq.group_state s using rest r where s.ctid = r.ctid;
    if v_sum > 0 then
        update batchq.upkeep u set breaches = (u.breaches + v_sum)::integer
        where u.task = 'groups';
    end if;
    return v_sum;
end
$_check_groups$;
