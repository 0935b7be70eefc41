/*
 * Where many jobs stand: a few probes of indexes for each. Payloads and results are not touched.
 * The probes are those of _place_of, in one statement: as a call for each job they take five times
 * as long. None is an exists: of a table it takes for empty the planner may read all.
 */
create or replace function batchq.job_states(job_ids bigint[])
returns setof batchq.job_state
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $job_states$
begin
    if not coalesce(cardinality(job_ids) <= 10000, false) then
        perform batchq._raise('JQ001',
            format('invalid job_ids: %s', coalesce(cardinality(job_ids) || ' ids', 'null')),
            'give an array of at most 10,000 ids');
    end if;
    perform batchq._check_list(job_ids);
    return query
    select j.id, j.queue::text, s.state,
           case when s.state in ('ready', 'scheduled', 'blocked') then 'pending'
                when s.state = 'leased' then 'running'
                else s.state end
    from (select distinct u.id from unnest(job_states.job_ids) u(id)) i
    cross join lateral (
        select o.id, o.segment, o.queue, o.priority from batchq.job o where o.id = i.id limit 1) j
    cross join lateral (
        select 'ready' as state from batchq.ready r
        where r.queue = j.queue and r.priority = j.priority and r.pos = j.id and r.job_id = j.id
        union all
        select 'leased' from batchq.leased l where l.job_id = j.id
        union all
        select 'scheduled' from batchq.scheduled c where c.job_id = j.id
        union all
        select 'blocked' from batchq.blocked b where b.job_id = j.id
        union all
        select o.state from batchq.outcome o where o.job_id = j.id and o.segment = j.segment
        union all
        select 'failed' from batchq.dead d where d.job_id = j.id
        union all
        select 'ready' from batchq.ready r
        where r.job_id = j.id and r.pos <> r.job_id
        limit 1) s
    order by j.id;
end
$job_states$;

comment on function batchq.job_states is $comment$
Where jobs stand, for whoever waits for many.

job_ids: at most 10,000; one that is named twice counts once.

Returns: job_state rows in order of id; none for an id that is unknown or was purged.
Errors: JQ001 job_ids is null, or has more ids.
Role: batchq_monitor, and every other role of batchq.
Example: select job_id, status from batchq.job_states(array[1, 2, 3])
$comment$;
