/*
 * What a lease would give, without leasing: nothing is locked and nothing written. The steps are
 * those of lease: due jobs, turns of groups, lanes by priority, and a second look if nothing was
 * found. Jobs that begin to wait for their turn in the same lease are looked at by it only if a
 * call was there before, or in its second look.
 */
create or replace function batchq.peek_lease(queue text default 'default', n integer default 10)
returns setof batchq.peeked_job
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $peek_lease$
declare
    v_now constant timestamptz := batchq._now();
    v_called boolean;
    v_room bigint;
    v_ready batchq.ready[];
    v_due batchq.blocked[];
    v_turns batchq.blocked[];
    v_open constant text[] := batchq._open_kinds(queue, null);
    v_probed constant text[] := batchq._open_kinds(queue, v_now);
begin
    if not coalesce(n between 1 and 1000, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 1,000');
    end if;
    perform batchq._check_queue_exists(queue);
    v_room := batchq._room(queue, n, v_now);
    if v_room = 0 then
        return;
    end if;
    v_called := batchq._is_called(queue, batchq._hard_floor(queue, 'round'), v_now);
    v_ready := array(select r from batchq._next_ready(
            queue, v_room::integer + case when v_open = '{}' then 0 else 1000 end) r);
    v_due := array(select d from batchq._coming_due(queue, v_now, 1000) d);
    if v_called or v_ready = '{}' and not exists (
           select from unnest(v_due) d where d.group_key is null)
    then
        v_turns := array(
            select t from batchq._coming_turns(queue, v_due, v_now, greatest(n, 20)) t);
    end if;
    return query
    select c.job_id, j.kind::text, c.priority::integer, j.group_key::text, c.state
    from (
        select k.*
        from (select u.*, row_number() over (
                         partition by u.kind order by u.priority desc, u.step, u.pos) as nth
              from (select r.priority, 1 as step, r.pos, r.job_id, r.segment, 'ready' as state,
                           batchq._kind_among(v_open, r.job_id, r.segment) as kind
                    from unnest(v_ready) r
                    union all
                    select d.priority, 2, d.pos, d.job_id, d.segment, 'scheduled',
                           batchq._kind_among(v_open, d.job_id, d.segment)
                    from unnest(v_due) d where d.group_key is null
                    union all
                    select t.priority, 3, t.pos, t.job_id, t.segment,
                           case when t.since is null then 'scheduled' else 'blocked' end,
                           batchq._kind_among(v_open, t.job_id, t.segment)
                    from unnest(v_turns) t) u) k
        where k.kind is null or k.kind = any(v_probed) and k.nth = 1
        order by k.priority desc, k.step, k.pos
        limit v_room
    ) c
    cross join lateral (
        select o.kind, o.group_key from batchq.job o
        where o.id = c.job_id and o.segment = c.segment
        limit 1) j
    order by c.priority desc, c.step, c.pos;
end
$peek_lease$;

comment on function batchq.peek_lease is $comment$
What a lease of a queue would give now, best first, without leasing, locking or writing anything:
ready jobs, scheduled jobs that are due, and jobs of groups that would get their turn, as many as
the limits of the queue let start. Whoever leases in the meantime takes them.

queue: its name. n: 1 to 1,000.

Looks at up to 1,000 due jobs and 500 calls of groups, as one look of a lease does: the cost does
not grow with a backlog. Not foreseen: jobs of groups that get their turn because a circuit breaker
puts off others in the same lease.

Returns: peeked_job rows; none if the queue is paused, or there is nothing to start. state: where
the job is now: ready, scheduled or blocked.
Errors: JQ001 n is out of its bounds; JQ002 no such queue.
Role: batchq_monitor, and every other role of batchq.
Example: select job_id, kind, state from batchq.peek_lease('mail', 5)
$comment$;
