/*
 * The next n scheduled jobs that are due, in the order in which they would become ready: as rows of
 * blocked, with places beyond all others, and since null. group_key is null for those that need no
 * turn of a group: see _promote.
 */
create or replace function batchq._coming_due(queue text, at timestamptz, n integer)
returns setof batchq.blocked
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_coming_due$
declare
    v_from constant timestamptz := batchq._instant(batchq._hard_floor(queue, 'scheduled'));
begin
    return query
    select 4611686018427387904 + row_number() over (order by s.run_at, s.job_id), s.job_id,
           null::timestamptz, s.segment, s.priority,
           case when s.ties & 8 <> 0 then -32768
                when q.group_limit = 1 then 0
                else -greatest(s.priority, -32767) end::smallint,
           s.attempt, s.ties, s.queue,
           case when s.ties & 4 <> 0 and (s.ties & 8 = 0 or q.group_rate is not null)
                then j.group_key end
    from (
        select d.*
        from batchq.scheduled d
        where d.queue = _coming_due.queue and d.run_at >= v_from and d.run_at <= _coming_due.at
        order by d.run_at, d.job_id
        limit _coming_due.n
    ) s
    left join batchq.queue q on q.queue = s.queue
    left join lateral (
        select o.group_key
        from batchq.job o
        where s.ties & 4 <> 0 and o.id = s.job_id and o.segment = s.segment
        limit 1) j on true;
end
$_coming_due$;
