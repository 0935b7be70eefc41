/*
 * Listing jobs, newest first, by keyset: the id is the key, and ids are never given twice, so no
 * page repeats or skips a job that was there throughout. Ids are looked for in the index of each
 * state that was asked for, so page 1,000 costs what page 1 does; what is shown is read for n jobs
 * only. A filter that no index answers looks at so many jobs a call and then says where it stopped.
 */
create or replace function batchq.list_jobs(
    status text default null,
    state text default null,
    kind text default null,
    queue text default null,
    created_after timestamptz default null,
    created_before timestamptz default null,
    n integer default 50,
    before_id bigint default null,
    dedupe_key text default null
)
returns setof batchq.job_summary
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
as $list_jobs$
declare
    v_filter constant batchq.job_filter := row(
        batchq._states_of(status, state), kind, queue, dedupe_key, created_after, created_before);
    v_from bigint := 0::bigint;
    v_before bigint := least(before_id, batchq._head('ready', null) + 1);
    v_is_narrow constant boolean := num_nonnulls(kind, queue) > 0;
    v_sources text[];
    v_source text;
    v_scanned batchq.scanned_jobs;
    v_ids bigint[] := '{}'::bigint[];
    v_looked_to bigint := 0::bigint;
    v_shown integer;
    v_last batchq.job_summary;
begin
    if not coalesce(n between 1 and 500, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 500');
    end if;
    if created_after > '0001-01-02 00:00:00+00' then
        v_from := batchq._id_at(created_after - interval '60 s');
    end if;
    if created_before < '9999-12-30 00:00:00+00' then
        v_before := least(v_before, batchq._id_at(created_before + interval '60 s'));
    end if;
    v_sources := array(select s.source from batchq._list_sources(v_filter) as s(source));
    foreach v_source in array v_sources loop
        if v_source = 'job' then
            v_scanned := batchq._scan_history(v_filter, false, v_from, v_before, n, 20000);
        else
            v_scanned := batchq._scan_jobs(v_source, v_filter, v_from, v_before, n, case
                when v_source = 'completed' and v_is_narrow then 1000
                when num_nonnulls(kind, created_after, created_before) > 0 then 1000
                else 10000 end);
        end if;
        if v_source = 'completed' and v_is_narrow and v_scanned.looked_to > 0
           and cardinality(v_scanned.job_ids) < n
        then                                     -- few match: quicker the other way round
            v_ids := v_ids || v_scanned.job_ids;
            v_scanned := batchq._scan_history(
                v_filter, true, v_from, v_scanned.looked_to,
                n - cardinality(v_scanned.job_ids), 20000);
        end if;
        v_ids := v_ids || v_scanned.job_ids;
        v_looked_to := greatest(v_looked_to, v_scanned.looked_to);
    end loop;
    v_ids := array(
        select i.id from unnest(v_ids) as i(id)
        where i.id >= v_looked_to
        order by i.id desc
        limit list_jobs.n);
    return query
    select j.id, batchq.job_uuid(j.id), j.kind::text, j.queue::text, p.status, p.state,
           p.priority, p.attempts, j.max_attempts::integer, j.dedupe_key::text,
           j.created_at, p.run_at, p.updated_at, p.locked_by,
           coalesce((select e.error from batchq.error e
                     where e.job_id = j.id and e.segment = j.segment
                     order by e.lease_id desc limit 1), p.reason)
    from unnest(v_ids) with ordinality as i(id, ordinal)
    cross join lateral (select f.* from batchq.job f where f.id = i.id limit 1) j
    cross join lateral batchq._place_of(j.id, j.segment, j.queue, j.priority, j.created_at,
                                        j.run_at) p
    order by i.ordinal;
    get diagnostics v_shown = row_count;
    v_last.id := coalesce(v_ids[n], v_looked_to);
    if v_shown < n and v_last.id > 0 then
        return next v_last;
    end if;
end
$list_jobs$;

comment on function batchq.list_jobs is $comment$
Jobs that match all filters that are given, newest first.

status: pending, running (or processing), completed, failed or cancelled. state: scheduled, ready,
blocked, leased, completed, failed or cancelled. kind, queue: exact names. dedupe_key: jobs that
were enqueued with this key, whether they hold it still or not. created_after (inclusive),
created_before (exclusive): times. n: 1 to 500. before_id: the next page: the lowest id of this one.

No job comes twice on the pages of a walk, and none that was there throughout is left out. Status,
state and dedupe_key cost the same on each page, and so does a queue with a pending state; times are
found by halving the ids, which rise with time: a job whose clock was more than a minute off its
neighbours' may be left out. For the rest, what matches is looked for among 20,000 jobs a call
(1,000 of a status or state that is not completed), and cancelled jobs among 10,000 finished ones.
If the page is not full then, though there may be more, it ends with a row that has only an id: go
on with that as before_id.

Returns: job_summary rows.
Errors: JQ001 an unknown status or state, or n is out of its bounds.
Role: batchq_monitor, and every other role of batchq.
Example: select id, kind, status from batchq.list_jobs(status => 'failed', n => 20)
$comment$;
