/*
 * The dead letters of lowest ids that match, at most n, beyond an id, found among at most 100,000
 * (20,000 by error, whose texts have to be read). Unless it is a dry run they are locked, and those
 * that others hold are skipped. looked_to: all up to it have been looked at; null: all.
 *
 * An error is compared as a whole only where it begins as the group does, to its first N or quote.
 */
create or replace function batchq._choose_dead(
    job_ids bigint[],
    queue text,
    kind text,
    error text,
    failed_after timestamptz,
    failed_before timestamptz,
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
as $_choose_dead$
declare
    v_start constant text := substring(error from '^[^N'']*');
    v_few constant boolean := job_ids is null and queue is not null and after_id is null and (
        select count(*) from (select from batchq.dead d where d.queue = _choose_dead.queue
                              order by d.failed_at desc limit 10001) c) <= 10000;
    v_chosen batchq.scanned_jobs := row('{}'::bigint[], coalesce(after_id, 0));
    v_left integer := case when error is null then 100000 else 20000 end;
    v_window integer := least(greatest(n, 1000), v_left);
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
            select d.job_id,
                   (_choose_dead.queue is null or d.queue = _choose_dead.queue)
                   and (_choose_dead.failed_after is null
                        or d.failed_at >= _choose_dead.failed_after)
                   and (_choose_dead.failed_before is null
                        or d.failed_at < _choose_dead.failed_before)
                   and (_choose_dead.kind is null or _choose_dead.kind = (
                       select j.kind from batchq.job j
                       where j.id = d.job_id and j.segment = d.segment))
                   and (_choose_dead.error is null or _choose_dead.error = coalesce((
                       select case when starts_with(ltrim(x.error, E' \r\n\t'), v_start)
                                   then batchq._error_group(x.error) else '-' end
                       from batchq.error x
                       where x.job_id = d.job_id and x.segment = d.segment
                       order by x.lease_id desc limit 1), '')) as fits
            from batchq._dead_letters(_choose_dead.job_ids, _choose_dead.queue, v_few,
                                      v_chosen.looked_to, v_window) d
        ) c;
        v_wanted := n - cardinality(v_chosen.job_ids);
        v_chosen.looked_to := case when cardinality(v_ids) >= v_wanted then v_ids[v_wanted]
                                   when v_seen = v_window then v_highest end;
        v_ids := v_ids[:v_wanted];
        v_chosen.job_ids := v_chosen.job_ids || case when dry_run then v_ids else array(
            select d.job_id from unnest(v_ids) i(id)
            cross join lateral (
                select l.job_id from batchq.dead l
                where l.job_id = i.id and (_choose_dead.failed_before is null
                                           or l.failed_at < _choose_dead.failed_before)
                limit 1 for update skip locked) d) end;
        v_left := v_left - v_seen;
        exit when v_chosen.looked_to is null or v_left <= 0 or cardinality(v_chosen.job_ids) >= n;
        v_window := least(4 * v_window, 10000, v_left);
    end loop;
    return v_chosen;
end
$_choose_dead$;
