/*
 * The newest n jobs of a source that match, below before_id and not below from_id, found among at
 * most so many candidates. looked_to: all above it, and it, have been looked at; 0: there are no
 * more. Windows grow: a filter that most match costs little, one that few match not much more
 * than its candidates.
 */
create or replace function batchq._scan_jobs(
    source text,
    filter batchq.job_filter,
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
as $_scan_jobs$
declare
    v_queue constant text := (filter).queue;
    v_kind constant text := (filter).kind;
    v_after constant timestamptz := (filter).created_after;
    v_before constant timestamptz := (filter).created_before;
    v_states constant text[] := (filter).states;
    v_probes constant boolean := source <> 'key'
        and (num_nonnulls(v_kind, v_after, v_before) > 0
             or (v_queue is not null and source in ('completed', 'cancelled')));
    v_lanes constant batchq.line[] := case when source = 'ready' then array(
        select row(l.queue, l.line, l.priority)::batchq.line
        from batchq._lanes((filter).queue) l) end;
    v_window integer := greatest(n, 100);
    v_width bigint := 4 * v_window::bigint;
    v_left bigint := most::bigint;
    v_scanned batchq.scanned_jobs := row('{}'::bigint[], before_id);
    v_low bigint := from_id;
    v_lowest bigint;
    v_seen bigint;
    v_ids bigint[];
begin
    loop
        if cardinality(v_lanes) > 1 then         -- or each lane would be read as far as one alone
            v_low := greatest(from_id, v_scanned.looked_to - v_width);
        end if;
        select array_agg(c.job_id order by c.job_id desc) filter (where case
                   when not c.fits then false
                   when v_probes then (
                       select (v_queue is null or j.queue = v_queue) and batchq._matches(
                                  j.kind, j.created_at, v_kind, v_after, v_before)
                       from batchq.job j where j.id = c.job_id and j.segment = c.segment)
                   when source = 'key' and v_states is not null
                   then batchq._state_of(c.job_id) = any(v_states)
                   else true end),
               min(c.job_id), count(*)
        into v_ids, v_lowest, v_seen
        from batchq._list_candidates(source, filter, v_lanes, v_low, v_scanned.looked_to,
                                     v_window) c;
        v_scanned.job_ids := v_scanned.job_ids || v_ids;
        v_scanned.looked_to := case when v_seen = v_window then v_lowest
                                    when v_low > from_id then v_low else 0::bigint end;
        v_left := v_left - v_seen - coalesce(cardinality(v_lanes), 0);
        exit when v_scanned.looked_to = 0 or v_left <= 0 or cardinality(v_scanned.job_ids) >= n;
        if v_seen = v_window then
            v_window := least(4 * v_window, 4000, v_left)::integer;
            v_width := 4 * v_window::bigint;
        else
            v_width := 8 * v_width;
        end if;
    end loop;
    if cardinality(v_scanned.job_ids) > n then
        v_scanned.job_ids := v_scanned.job_ids[:n];
        v_scanned.looked_to := v_scanned.job_ids[n];
    end if;
    return v_scanned;
end
$_scan_jobs$;
