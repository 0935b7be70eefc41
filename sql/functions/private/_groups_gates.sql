/*
 * How many groups of a queue have jobs that wait for their turn, and which has the most: for
 * explain_queue. 200 groups are looked at, by name, and 2,000 jobs of them, shared equally.
 */
create or replace function batchq._groups_gates(queue text)
returns setof batchq.gate
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_groups_gates$
declare
    v_keys text[];
    v_most integer;
    v_largest record;
begin
    with recursive waiting as (
        (select 1 as i, b.group_key
         from batchq.blocked b
         where b.queue = _groups_gates.queue
         order by b.group_key
         limit 1)
        union all
        select w.i + 1, k.group_key
        from waiting w
        cross join lateral (
            select b.group_key
            from batchq.blocked b
            where b.queue = _groups_gates.queue and b.group_key > w.group_key
            order by b.group_key
            limit 1) k
        where w.i < 201
    )
    select array_agg(w.group_key) into v_keys from waiting w;
    if v_keys is null then
        return;
    end if;
    v_most := 2000 / cardinality(v_keys);
    select k.group_key, c.jobs into v_largest
    from unnest(v_keys) as k(group_key)
    cross join lateral (
        select count(*) as jobs
        from (select from batchq.blocked b
              where b.queue = _groups_gates.queue and b.group_key = k.group_key collate "C"
              limit v_most + 1) b) c
    order by c.jobs desc, k.group_key collate "C"
    limit 1;
    return query
    select 'groups', false,
           case when cardinality(v_keys) > 200 then 'more than 200 groups wait'
                when cardinality(v_keys) = 1 then '1 group waits'
                else cardinality(v_keys) || ' groups wait' end
           || format(' for %s turn; %s has the most jobs: %s',
                     case cardinality(v_keys) when 1 then 'its' else 'their' end,
                     v_largest.group_key,
                     case when v_largest.jobs > v_most then 'more than ' || v_most
                          else v_largest.jobs::text end),
           null::timestamptz,
           jsonb_build_object(
               'groups', least(cardinality(v_keys), 200), 'largest', v_largest.group_key,
               'largest_jobs', least(v_largest.jobs, v_most),
               'is_exact', cardinality(v_keys) <= 200 and v_largest.jobs <= v_most);
end
$_groups_gates$;
