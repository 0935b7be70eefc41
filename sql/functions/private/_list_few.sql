-- _list_candidates of a queue that has few scheduled jobs or dead letters: all of them are read, by
-- the queue's own index, which has them in another order.
create or replace function batchq._list_few(
    source text,
    queue text,
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
as $_list_few$
begin
    return query
    select f.job_id, f.segment, true
    from (
        select s.job_id, s.segment from batchq.scheduled s
        where _list_few.source = 'few scheduled' and s.queue = _list_few.queue
        union all
        select d.job_id, d.segment from batchq.dead d
        where _list_few.source = 'few failed' and d.queue = _list_few.queue
        offset 0
    ) f
    where f.job_id < _list_few.before_id and f.job_id >= _list_few.from_id
    order by f.job_id desc
    limit _list_few.n;
end
$_list_few$;
