/*
 * Where a job stands, and what the row of that place says of it: the same as the view jobs, by
 * index probes in a fixed order. From the view the planner may read a whole lane to find one job.
 *
 * In SQL and without settings of its own, so that it becomes a part of the statement that asks: as
 * a call for each job it takes twice as long. Only functions that pin their plans may ask.
 */
create or replace function batchq._place_of(
    job_id bigint,
    segment smallint,
    queue text,
    priority smallint,
    created_at timestamptz,
    run_at timestamptz
)
returns setof batchq.job_place
language sql
stable
as $_place_of$
select 'pending' as status, 'ready' as state, r.attempt::integer as attempts,
       coalesce(r.ready_at, _place_of.run_at) as run_at,
       coalesce(r.ready_at, _place_of.created_at) as updated_at,
       null::timestamptz as started_at, null::timestamptz as finished_at,
       null as locked_by, null::timestamptz as locked_until,
       null::timestamptz as cancel_requested_at, null::jsonb as progress,
       null::jsonb as result, null as reason, r.priority::integer as priority
from batchq.ready r
where r.queue = _place_of.queue and r.priority = _place_of.priority and r.pos = _place_of.job_id
  and r.job_id = _place_of.job_id
union all
select 'running', 'leased', l.attempt, _place_of.run_at,
       greatest(l.leased_at, l.cancel_requested_at), l.leased_at, null, l.worker,
       l.lease_until, l.cancel_requested_at, l.progress, null, null, l.priority
from batchq.leased l where l.job_id = _place_of.job_id
union all
select o.state, o.state, o.attempt, _place_of.run_at, o.finished_at, o.leased_at,
       o.finished_at, null, null, null, null, o.result, o.reason, _place_of.priority
from batchq.outcome o where o.job_id = _place_of.job_id and o.segment = _place_of.segment
union all
select 'pending', 'scheduled', s.attempt, s.run_at, s.since, null, null, null, null, null,
       null, null, null, s.priority
from batchq.scheduled s where s.job_id = _place_of.job_id
union all
select 'pending', 'blocked', b.attempt, _place_of.run_at, b.since, null, null, null, null, null,
       null, null, null, b.priority
from batchq.blocked b where b.job_id = _place_of.job_id
union all
select 'failed', 'failed', d.attempt, _place_of.run_at, d.failed_at, null, d.failed_at,
       null, null, null, null, null, null, d.priority
from batchq.dead d where d.job_id = _place_of.job_id
union all
select 'pending', 'ready', r.attempt, coalesce(r.ready_at, _place_of.run_at),
       coalesce(r.ready_at, _place_of.created_at), null, null, null, null, null, null,
       null, null, r.priority
from batchq.ready r where r.job_id = _place_of.job_id and r.pos <> r.job_id
limit 1
$_place_of$;
