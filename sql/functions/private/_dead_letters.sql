/*
 * Dead letters beyond an id, lowest ids first, at most n: those of job_ids; or those of the queue,
 * where they are few, by its own index, which has them in another order; or any. None is locked.
 */
create or replace function batchq._dead_letters(
    job_ids bigint[],
    queue text,
    few boolean,
    after_id bigint,
    n integer
)
returns setof batchq.dead
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_dead_letters$
begin
    if job_ids is not null then
        return query
        select d.*
        from (select distinct u.id from unnest(_dead_letters.job_ids) u(id)) i
        cross join lateral (
            select l.* from batchq.dead l where l.job_id = i.id offset 0
        ) d
        where d.job_id > _dead_letters.after_id
        order by d.job_id
        limit _dead_letters.n;
    elsif few then
        return query
        select d.*
        from (select l.* from batchq.dead l where l.queue = _dead_letters.queue offset 0) d
        where d.job_id > _dead_letters.after_id
        order by d.job_id
        limit _dead_letters.n;
    else
        return query
        select d.*
        from batchq.dead d
        where d.job_id > _dead_letters.after_id
        order by d.job_id
        limit _dead_letters.n;
    end if;
end
$_dead_letters$;
