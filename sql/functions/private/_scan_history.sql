/*
 * As _scan_jobs, of all jobs by their ids: those that match among the newest so many. A filter that
 * most match costs little; one that few match costs what is looked at, as no index has kinds, nor
 * queues of jobs that are over. completed: only those; asked for last, of jobs that match else.
 */
create or replace function batchq._scan_history(
    filter batchq.job_filter,
    completed boolean,
    from_id bigint,
    before_id bigint,
    n integer,
    most integer
)
returns batchq.scanned_jobs
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_scan_history$
declare
    v_queue constant text := (filter).queue;
    v_kind constant text := (filter).kind;
    v_after constant timestamptz := (filter).created_after;
    v_before constant timestamptz := (filter).created_before;
    v_window integer := greatest(n, 100);
    v_left integer := most;
    v_scanned batchq.scanned_jobs := row('{}'::bigint[], before_id);
    v_ids bigint[];
    v_lowest bigint;
    v_seen integer;
begin
    loop
        select array_agg(c.id) filter (where c.fits), min(c.id), count(*)::integer
        into v_ids, v_lowest, v_seen
        from (
            select j.id,
                   (v_queue is null or j.queue = v_queue)
                   and batchq._matches(j.kind, j.created_at, v_kind, v_after, v_before)
                   and (not _scan_history.completed or 'completed' = (
                       select o.state from batchq.outcome o   -- exists might hash all of them
                       where o.job_id = j.id and o.segment = j.segment)) as fits
            from batchq.job j
            where j.id < v_scanned.looked_to and j.id >= _scan_history.from_id
            order by j.id desc
            limit v_window
        ) c;
        v_scanned.job_ids := v_scanned.job_ids || v_ids;
        v_scanned.looked_to := case when v_seen = v_window then v_lowest else 0::bigint end;
        v_left := v_left - v_seen;
        exit when v_scanned.looked_to = 0 or v_left <= 0 or cardinality(v_scanned.job_ids) >= n;
        v_window := least(8 * v_window, v_left);
    end loop;
    if cardinality(v_scanned.job_ids) > n then
        v_scanned.job_ids := v_scanned.job_ids[:n];
        v_scanned.looked_to := v_scanned.job_ids[n];
    end if;
    return v_scanned;
end
$_scan_history$;
