/*
 * The jobs of lowest ids that are over and match, at most n, beyond an id, found among at most
 * 100,000. Unless it is a dry run their outcomes are locked, and what others hold is skipped.
 * looked_to: all up to it have been looked at; null: all.
 */
create or replace function batchq._choose_outcomes(
    state text,
    job_ids bigint[],
    queue text,
    kind text,
    finished_before timestamptz,
    after_id bigint,
    n integer,
    dry_run boolean
)
returns batchq.scanned_jobs
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_choose_outcomes$
declare
    v_chosen batchq.scanned_jobs := row('{}'::bigint[], coalesce(after_id, 0));
    v_left integer := 100000;
    v_window integer := n;
    v_ids bigint[];
    v_highest bigint;
    v_seen integer;
    v_wanted integer;
begin
    loop
        select array_agg(c.job_id order by c.job_id) filter (where c.fits), max(c.job_id),
               count(*)::integer
        into v_ids, v_highest, v_seen
        from (
            select o.job_id, o.state = _choose_outcomes.state
                   and (_choose_outcomes.finished_before is null
                        or o.finished_at < _choose_outcomes.finished_before)
                   and (num_nonnulls(_choose_outcomes.queue, _choose_outcomes.kind) = 0 or (
                       select (_choose_outcomes.queue is null or j.queue = _choose_outcomes.queue)
                              and (_choose_outcomes.kind is null or j.kind = _choose_outcomes.kind)
                       from batchq.job j where j.id = o.job_id and j.segment = o.segment)) as fits
            from (
                (select a.job_id, a.segment, a.state, a.finished_at
                 from batchq.outcome a
                 where _choose_outcomes.job_ids is null and a.job_id > v_chosen.looked_to
                 order by a.job_id limit v_window)
                union all
                (select b.job_id, b.segment, b.state, b.finished_at
                 from (select distinct u.id from unnest(_choose_outcomes.job_ids) u(id)) i
                 cross join lateral (
                     select k.job_id, k.segment, k.state, k.finished_at
                     from batchq.outcome k where k.job_id = i.id limit 1) b
                 where i.id > v_chosen.looked_to
                 order by i.id limit v_window)) o
        ) c;
        v_wanted := n - cardinality(v_chosen.job_ids);
        v_chosen.looked_to := case when cardinality(v_ids) >= v_wanted then v_ids[v_wanted]
                                   when v_seen = v_window then v_highest end;
        v_ids := v_ids[:v_wanted];
        v_chosen.job_ids := v_chosen.job_ids || case when dry_run then v_ids else array(
            select d.job_id from unnest(v_ids) i(id)
            cross join lateral (
                select o.job_id from batchq.outcome o
                where o.job_id = i.id limit 1 for update skip locked) d) end;
        v_left := v_left - v_seen;
        exit when v_chosen.looked_to is null or v_left <= 0 or cardinality(v_chosen.job_ids) >= n;
        v_window := least(4 * v_window, v_left);
    end loop;
    return v_chosen;
end
$_choose_outcomes$;
