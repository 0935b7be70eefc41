-- The seats of a queue's groups: how many jobs have one, and how many the group believes are
-- taken, with what was called but not read yet; so, too, the permits to start that jobs have. One
-- snapshot, so the two must be the same.
create or replace function batchq._seats(queue text)
returns setof batchq.group_seats
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
as $_seats$
begin
    return query
    select coalesce(h.group_key, k.group_key)::text, coalesce(h.seats, 0)::integer,
           coalesce(k.seats, 0)::integer, coalesce(h.starts, 0)::integer,
           coalesce(k.starts, 0)::integer
    from (
        select j.group_key, count(*) filter (where n.ties & 8 <> 0) as seats,
               count(*) filter (where n.ties & 16 <> 0) as starts
        from (
            select r.job_id, r.segment, r.ties from batchq.ready r
            where r.queue = _seats.queue and r.ties & 24 <> 0
            union all
            select s.job_id, s.segment, s.ties from batchq.scheduled s
            where s.queue = _seats.queue and s.ties & 24 <> 0
            union all
            select l.job_id, l.segment, l.ties from batchq.leased l
            where l.queue = _seats.queue and l.ties & 24 <> 0
            union all
            select b.job_id, b.segment, b.ties from batchq.blocked b
            where b.queue = _seats.queue and b.ties & 24 <> 0
        ) n
        join batchq.job j on j.id = n.job_id and j.segment = n.segment
        group by j.group_key
    ) h
    full join (
        select u.group_key, sum(u.seats) as seats, sum(u.starts) as starts
        from (
            (select distinct on (s.group_key) s.group_key, s.seated as seats, s.started as starts
             from batchq.group_state s
             where s.queue = _seats.queue
             order by s.group_key, s.generation desc)
            union all
            select c.group_key, -c.seats, -c.starts from batchq.call c
            where c.queue = _seats.queue
        ) u
        group by u.group_key
    ) k on k.group_key = h.group_key;
end
$_seats$;
