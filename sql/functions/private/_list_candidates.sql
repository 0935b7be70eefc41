/*
 * Jobs that a list may have, newest first, at most n, below before_id and not below from_id; fits:
 * whether they match as far as this can tell. source: where to look: a state, 'returned' for ready
 * jobs that took a new place, 'key' for those that were enqueued with the filter's dedupe key,
 * 'few' of a state where the queue has not many. lanes: where ready jobs are.
 *
 * Each source is read from the high end of an index that has its ids in order, but for the few. A
 * fresh ready job's place is its id.
 */
create or replace function batchq._list_candidates(
    source text,
    filter batchq.job_filter,
    lanes batchq.line[],
    from_id bigint,
    before_id bigint,
    n integer
)
returns setof batchq.seen_job
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_list_candidates$
declare
    v_n constant integer := n;
    v_from constant bigint := from_id;
    v_below constant bigint := before_id;
    v_queue constant text := (filter).queue;
    v_kind constant text := (filter).kind;
    v_key constant text := (filter).dedupe_key;
    v_after constant timestamptz := (filter).created_after;
    v_before constant timestamptz := (filter).created_before;
begin
    case source
        when 'key' then
            return query
            select j.id, j.segment, (v_queue is null or j.queue = v_queue)
                   and batchq._matches(j.kind, j.created_at, v_kind, v_after, v_before)
            from batchq.job j
            where j.dedupe_key = v_key and j.id < v_below and j.id >= v_from
            order by j.id desc limit v_n;
        when 'ready' then
            return query
            select r.job_id, r.segment, true
            from unnest(_list_candidates.lanes) as l(queue, line, priority)
            cross join lateral (
                select r.job_id, r.segment from batchq.ready r
                where r.queue = l.queue and r.priority = l.priority and r.pos = r.job_id
                  and r.pos < v_below and r.pos >= v_from
                order by r.pos desc limit v_n) r
            order by r.job_id desc limit v_n;
        when 'returned' then
            return query
            select r.job_id, r.segment, v_queue is null or r.queue = v_queue
            from batchq.ready r
            where r.pos <> r.job_id and r.job_id < v_below and r.job_id >= v_from
            order by r.job_id desc limit v_n;
        when 'leased' then
            return query
            select l.job_id, l.segment, v_queue is null or l.queue = v_queue
            from batchq.leased l
            where l.job_id < v_below and l.job_id >= v_from order by l.job_id desc limit v_n;
        when 'scheduled' then
            return query
            select s.job_id, s.segment, v_queue is null or s.queue = v_queue
            from batchq.scheduled s
            where s.job_id < v_below and s.job_id >= v_from order by s.job_id desc limit v_n;
        when 'blocked' then
            return query
            select b.job_id, b.segment, v_queue is null or b.queue = v_queue
            from batchq.blocked b
            where b.job_id < v_below and b.job_id >= v_from order by b.job_id desc limit v_n;
        when 'few scheduled', 'few failed' then
            return query
            select f.* from batchq._list_few(source, v_queue, v_from, v_below, v_n) f;
        when 'failed' then
            return query
            select d.job_id, d.segment, v_queue is null or d.queue = v_queue
            from batchq.dead d
            where d.job_id < v_below and d.job_id >= v_from order by d.job_id desc limit v_n;
        else                                     -- completed or cancelled
            return query
            select o.job_id, o.segment, o.state = source
            from batchq.outcome o
            where o.job_id < v_below and o.job_id >= v_from order by o.job_id desc limit v_n;
    end case;
end
$_list_candidates$;
