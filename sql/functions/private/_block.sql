/*
 * Jobs of groups begin to wait for their turn: a row in blocked each, and a call for each group,
 * so that whoever leases next looks at it. The places of jobs that are new are their ids; others
 * take new ones, in the order of the array. Nobody is waited for: no group is looked at here.
 *
 * The xid comes before nextval and the clock: the floors depend on it.
 */
create or replace function batchq._block(jobs batchq.pending_job[], are_new boolean)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_block$
declare
    v_queue text;
    v_queues text[];
begin
    perform pg_current_xact_id();
    with placed as materialized (
        select case when _block.are_new then b.job_id else batchq._next_place() end as pos, b.*
        from unnest(_block.jobs) b
    ),
    described as materialized (
        select p.*, j.group_key,
               case when p.ties & 8 <> 0 then -32768
                    when q.group_limit = 1 then 0
                    else -greatest(p.priority, -32767) end::smallint as rank
        from placed p
        cross join lateral (
            select b.group_key from batchq.job b
            where b.id = p.job_id and b.segment = p.segment
            limit 1) j
        left join batchq.queue q on q.queue = p.queue
    ),
    called as (
        insert into batchq.call (due_at, queue, group_key, rank, pos)
        select batchq._now(), f.queue, f.group_key, f.first[1], f.first[2]
        from (select d.queue, d.group_key, min(array[d.rank::bigint, d.pos]) as first
              from described d
              group by d.queue, d.group_key) f
    ),
    waiting as (
        insert into batchq.blocked (pos, job_id, since, segment, priority, rank, attempt, ties,
                                    queue, group_key)
        select d.pos, d.job_id, batchq._now(), d.segment, d.priority, d.rank, d.attempt, d.ties,
               d.queue, d.group_key
        from described d
    )
    select array_agg(distinct d.queue order by d.queue) into v_queues from described d;
    foreach v_queue in array v_queues loop
        perform batchq._add_line(v_queue, 'round', 0::smallint);
    end loop;
end
$_block$;
