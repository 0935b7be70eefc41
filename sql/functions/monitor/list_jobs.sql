/*
 * Listing jobs, newest first, by keyset: the id is the key, and ids are never given twice, so no
 * page repeats or skips a job that was there throughout. The ids of each state that was asked for
 * are read from the index of its own table and cut to n; what is shown is read for n jobs only. A
 * filter on kind or queue that few jobs match is a longer read: there is no index for it.
 */
create or replace function batchq.list_jobs(
    status text default null,
    state text default null,
    kind text default null,
    queue text default null,
    created_after timestamptz default null,
    created_before timestamptz default null,
    n integer default 50,
    before_id bigint default null
)
returns setof batchq.job_summary
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $list_jobs$
declare
    v_status constant text := case status when 'processing' then 'running' else status end;
    v_states text[];
    v_ids bigint[];
begin
    if not coalesce(n between 1 and 500, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 500');
    end if;
    if v_status not in ('pending', 'running', 'completed', 'failed', 'cancelled') then
        perform batchq._raise('JQ001',
            format('unknown status: %s', quote_literal(left(status, 80))),
            'give pending, running, completed, failed or cancelled');
    end if;
    if state not in ('scheduled', 'ready', 'leased', 'completed', 'failed', 'cancelled') then
        perform batchq._raise('JQ001', format('unknown state: %s', quote_literal(left(state, 80))),
            'give scheduled, ready, leased, completed, failed or cancelled');
    end if;
    select array_agg(s.state) into v_states
    from (values ('pending', 'scheduled'), ('pending', 'ready'), ('running', 'leased'),
                 ('completed', 'completed'), ('failed', 'failed'), ('cancelled', 'cancelled')
         ) as s(status, state)
    where (v_status is null or s.status = v_status)
      and (list_jobs.state is null or s.state = list_jobs.state);
    if v_status is null and state is null then
        v_states := array[null::text];           -- any: read from job itself
    end if;
    select array_agg(c.id) into v_ids
    from (select i.id
          from unnest(v_states) as s(state)
          cross join lateral batchq._newest_jobs(
              s.state, list_jobs.kind, list_jobs.queue, list_jobs.created_after,
              list_jobs.created_before, list_jobs.n,
              coalesce(list_jobs.before_id, 9223372036854775807)) i(id)
          order by i.id desc
          limit list_jobs.n) c;
    return query
    select j.id, batchq.job_uuid(j.id), j.kind, j.queue, j.status, j.state, j.priority, j.attempts,
           j.max_attempts, j.dedupe_key, j.created_at, j.run_at, j.updated_at, j.locked_by,
           j.last_error
    from batchq.jobs j
    where j.id = any(v_ids)
    order by j.id desc;
end
$list_jobs$;

comment on function batchq.list_jobs is $comment$
Jobs that match all filters that are given, newest first.

status: pending, running (or processing), completed, failed or cancelled. state: scheduled, ready,
leased, completed, failed or cancelled. kind, queue: exact names. created_after (inclusive),
created_before (exclusive): times. n: 1 to 500. before_id: the next page: the lowest id of this
one.

Returns: job_summary rows.
Errors: JQ001 an unknown status or state, or n is out of its bounds.
Role: batchq_monitor, and every other role of batchq.
Example: select id, kind, status from batchq.list_jobs(status => 'failed', n => 20)
$comment$;
