-- Groups of a queue that have blocked jobs, seats or settings, up to 10,000 of each. See
-- list_groups.
create or replace function batchq._group_keys(queue text)
returns setof text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_group_keys$
begin
    return query
    with recursive waiting as (
        (select 1 as i, b.group_key
         from batchq.blocked b
         where b.queue = _group_keys.queue
         order by b.group_key
         limit 1)
        union all
        select w.i + 1, k.group_key
        from waiting w
        cross join lateral (
            select b.group_key
            from batchq.blocked b
            where b.queue = _group_keys.queue and b.group_key > w.group_key
            order by b.group_key
            limit 1) k
        where w.i < 10000
    ),
    seated as (
        select s.group_key
        from (select distinct on (s.group_key) s.group_key, s.seated
              from (select s.group_key, s.seated, s.generation
                    from batchq.group_state s
                    where s.queue = _group_keys.queue
                    order by s.group_key desc, s.generation desc
                    limit 20000) s
              order by s.group_key desc, s.generation desc) s
        where s.seated > 0
        limit 10000
    ),
    settled as (
        select g.group_key
        from batchq.group_setting g
        where g.queue = _group_keys.queue and num_nonnulls(g.group_limit, g.weight) > 0
        order by g.group_key
        limit 10000
    )
    select w.group_key::text from waiting w
    union
    select s.group_key::text from seated s
    union
    select s.group_key::text from settled s;
end
$_group_keys$;
