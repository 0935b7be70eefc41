/*
 * Groups of a queue, for people to look at. Names are found by one probe of an index each, counts
 * are cut off, and no job is touched: the cost does not grow with a backlog beyond these bounds.
 */
create or replace function batchq.list_groups(queue text, n integer default 100)
returns setof batchq.group_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $list_groups$
declare
    v_keys text[];
    v_most integer;
begin
    if not coalesce(n between 1 and 10000, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 10,000');
    end if;
    perform batchq._check_queue_exists(queue);
    v_keys := array(select k.group_key from batchq._group_keys(list_groups.queue) k(group_key));
    v_most := least(100000, greatest(100, 1000000 / (cardinality(v_keys) + 1)));
    return query
    select k.group_key, least(w.jobs, v_most)::integer, w.jobs <= v_most,
           greatest(coalesce(s.seated, 0) - k.back, 0)::integer,
           coalesce(g.group_limit, q.group_limit,
                    case when q.fair then 20 * coalesce(g.weight, 1) end),
           coalesce(g.weight, 1), num_nonnulls(g.group_limit, g.weight) > 0, f.since
    from (
        select u.group_key, sum(u.back) as back  -- not joined, so that no plan can go wrong
        from (select v.group_key, 0 as back, true as is_listed from unnest(v_keys) as v(group_key)
              union all
              (select c.group_key::text, c.seats, false from batchq.call c
               where c.queue = list_groups.queue
                 and c.due_at >= batchq._instant(batchq._hard_floor(list_groups.queue, 'round'))
               order by c.due_at, c.call_id
               limit 10000)) u
        group by u.group_key
        having bool_or(u.is_listed)) k
    left join batchq.queue q on q.queue = list_groups.queue
    left join batchq.group_setting g
        on g.queue = list_groups.queue and g.group_key = k.group_key collate "C"
    cross join lateral (
        select count(*) as jobs
        from (select from batchq.blocked w
              where w.queue = list_groups.queue and w.group_key = k.group_key collate "C"
              limit v_most + 1) w) w
    left join lateral (
        select w.since from batchq.blocked w
        where w.queue = list_groups.queue and w.group_key = k.group_key collate "C"
        order by w.rank, w.pos
        limit 1) f on true
    left join lateral (
        select t.seated from batchq.group_state t
        where t.queue = list_groups.queue and t.group_key = k.group_key collate "C"
        order by t.generation desc
        limit 1) s on true
    order by w.jobs desc, 4 desc, k.group_key collate "C"
    limit list_groups.n;
end
$list_groups$;

comment on function batchq.list_groups is $comment$
Groups of a queue: those with the most blocked jobs first. A group is there while jobs of it are
blocked or have a seat, or set_group has set something for it.

queue: its name. n: 1 to 10,000.

Looks at up to 10,000 groups with blocked jobs, by key, 10,000 with seats and 10,000 that were set.
Counts of blocked jobs stop at 100,000 a group, or sooner where there are more than 9 groups, at
1,000,000 divided by one more than their number but not below 100; is_exact is false when one did.

Returns: group_info rows. blocked: jobs that wait for their turn. seats: jobs of the group that are
ready or running, or hold their seat until their retry; where groups take turns and have no limit,
those that are ready. It may lag behind while more than 10,000 calls of groups wait to be read.
group_limit: how many seats there are: the group's own limit, else the queue's, else 20 for each
unit of weight where groups take turns; null: no limit. weight: 1 if not set. next_since: since
when the job is blocked that is next.
Errors: JQ001 n is out of its bounds; JQ002 no such queue.
Role: batchq_monitor, and every other role of batchq.
Example: select group_key, blocked, seats, group_limit from batchq.list_groups('mail', 10)
$comment$;
