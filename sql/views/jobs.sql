/*
 * The relation people read: one row a job, whatever table its narrow row is in. Each branch has
 * its state as a constant, so a filter on status or state reads only the tables it names.
 *
 * ready is read in two branches, as a fresh job is found through its lane (its place is its id)
 * and only one that took a new place has an index entry by id.
 */
create or replace view batchq.jobs as
select j.id, j.kind as type, j.kind, j.payload, 'pending' as status, 'ready' as state, j.queue,
       j.priority::integer as priority, r.attempt::integer as attempts,
       j.max_attempts::integer as max_attempts, j.dedupe_key,
       coalesce(r.ready_at, j.run_at) as run_at, coalesce(r.ready_at, j.run_at) as available_at,
       j.created_at, coalesce(r.ready_at, j.created_at) as updated_at, null::text as locked_by,
       null::timestamptz as locked_until,
       (select e.error from batchq.error e where e.job_id = j.id and e.segment = j.segment
        order by e.lease_id desc limit 1) as last_error,
       null::jsonb as result, null::timestamptz as started_at, null::timestamptz as finished_at,
       j.timeout, j.headers, null::jsonb as progress, null::timestamptz as cancel_requested_at,
       j.group_key
from batchq.ready r
join batchq.job j
  on j.id = r.pos and j.segment = r.segment and j.queue = r.queue and j.priority = r.priority
where r.pos = r.job_id
union all
select j.id, j.kind, j.kind, j.payload, 'pending', 'ready', j.queue,
       r.priority::integer, r.attempt::integer, j.max_attempts::integer, j.dedupe_key,
       coalesce(r.ready_at, j.run_at), coalesce(r.ready_at, j.run_at), j.created_at,
       coalesce(r.ready_at, j.created_at), null, null,
       (select e.error from batchq.error e where e.job_id = j.id and e.segment = j.segment
        order by e.lease_id desc limit 1),
       null, null, null, j.timeout, j.headers, null, null,
       j.group_key
from batchq.ready r join batchq.job j on j.id = r.job_id and j.segment = r.segment
where r.pos <> r.job_id
union all
select j.id, j.kind, j.kind, j.payload, 'pending', 'scheduled', j.queue,
       s.priority::integer, s.attempt::integer, j.max_attempts::integer, j.dedupe_key,
       s.run_at, s.run_at, j.created_at, s.since, null, null,
       (select e.error from batchq.error e where e.job_id = j.id and e.segment = j.segment
        order by e.lease_id desc limit 1),
       null, null, null, j.timeout, j.headers, null, null,
       j.group_key
from batchq.scheduled s join batchq.job j on j.id = s.job_id and j.segment = s.segment
union all
select j.id, j.kind, j.kind, j.payload, 'pending', 'blocked', j.queue,
       b.priority::integer, b.attempt::integer, j.max_attempts::integer, j.dedupe_key,
       j.run_at, j.run_at, j.created_at, b.since, null, null,
       (select e.error from batchq.error e where e.job_id = j.id and e.segment = j.segment
        order by e.lease_id desc limit 1),
       null, null, null, j.timeout, j.headers, null, null,
       j.group_key
from batchq.blocked b join batchq.job j on j.id = b.job_id and j.segment = b.segment
union all
select j.id, j.kind, j.kind, j.payload, 'running', 'leased', j.queue,
       l.priority::integer, l.attempt::integer, j.max_attempts::integer, j.dedupe_key,
       j.run_at, j.run_at, j.created_at, greatest(l.leased_at, l.cancel_requested_at), l.worker,
       l.lease_until,
       (select e.error from batchq.error e where e.job_id = j.id and e.segment = j.segment
        order by e.lease_id desc limit 1),
       null, l.leased_at, null, j.timeout, j.headers, l.progress, l.cancel_requested_at,
       j.group_key
from batchq.leased l join batchq.job j on j.id = l.job_id and j.segment = l.segment
union all
select j.id, j.kind, j.kind, j.payload, 'failed', 'failed', j.queue,
       d.priority::integer, d.attempt::integer, j.max_attempts::integer, j.dedupe_key,
       j.run_at, j.run_at, j.created_at, d.failed_at, null, null,
       (select e.error from batchq.error e where e.job_id = j.id and e.segment = j.segment
        order by e.lease_id desc limit 1),
       null, null, d.failed_at, j.timeout, j.headers, null, null,
       j.group_key
from batchq.dead d join batchq.job j on j.id = d.job_id and j.segment = d.segment
union all
select j.id, j.kind, j.kind, j.payload, o.state, o.state, j.queue,
       j.priority::integer, o.attempt::integer, j.max_attempts::integer, j.dedupe_key,
       j.run_at, j.run_at, j.created_at, o.finished_at, null, null,
       coalesce((select e.error from batchq.error e where e.job_id = j.id and e.segment = j.segment
                 order by e.lease_id desc limit 1), o.reason),
       o.result, o.leased_at, o.finished_at, j.timeout, j.headers, null, null,
       j.group_key
from batchq.outcome o join batchq.job j on j.id = o.job_id and j.segment = o.segment;

comment on view batchq.jobs is
    'One row a job. select status, count(*) from batchq.jobs group by status reads every job kept '
    'in history: fine for a look, too much for a metric; batchq.stats() is for that.';

create or replace trigger write_jobs
instead of insert or update or delete on batchq.jobs
for each row execute function batchq._write_jobs();
