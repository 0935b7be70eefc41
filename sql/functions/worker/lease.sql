/*
 * Leasing: ready rows leave, leased gains one row each.
 *
 * Rows others have locked are skipped, so leases never wait for each other. The lines of the
 * queue are visited from the high end of floor's index: scheduled first (what is due becomes
 * ready), round (groups give their next jobs), then the lanes by priority; each is read from its
 * floor up. Before the answer is "nothing" there is a second look from the hard floors, which
 * makes an empty answer exact.
 *
 * A queue without limits runs the statement here; one with limits that of _lease_limited, so that
 * what limits need is paid for by those who use them.
 *
 * The settings leave the index path as the only one: a plan made on an empty table serves a full
 * one. The lease's end is read from the clock row by row, so after this transaction took its xid:
 * the floor of leased depends on it.
 */
create or replace function batchq.lease(
    queue text default 'default',
    n integer default 1,
    worker text default null,
    lease_for interval default null
)
returns setof batchq.leased_job
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $lease$
declare
    v_now constant timestamptz := batchq._now();
    v_line text := 'start';                      -- sorts above every line
    v_priority smallint := 0::smallint;
    v_floor record;
    v_exact boolean := false;
    v_got integer := 0;
    v_count integer;
begin
    if not coalesce(batchq._name_fits(queue) and n between 1 and 10000 and lease_for is null
                    and coalesce(char_length(worker) <= 255, true), false) then
        perform batchq._check_lease(queue, n, worker, lease_for);
    end if;
    while v_got < n loop
        select f.*, case when v_exact then f.hard_floor else f.floor end as place, q.paused_at,
               q.lease_for, q.limited into v_floor
        from batchq.floor f left join batchq.queue q on q.queue = f.queue
        where f.queue = lease.queue and (f.line, f.priority) < (v_line, v_priority)
          and f.line >= 'ready'
        order by f.line desc, f.priority desc, f.generation desc limit 1;
        if not found then
            exit when v_got > 0 or v_exact or not batchq._discover(queue);
            v_exact := true;
            v_line := 'start';
            continue;
        end if;
        exit when v_floor.paused_at is not null;
        v_line := v_floor.line;
        v_priority := v_floor.priority;
        if v_floor.sweep_after <= v_now then
            perform batchq._sweep(queue, v_line, v_priority);
        end if;
        if v_line <> 'ready' then
            perform batchq._bring(queue, v_line, v_floor.floor, v_now);
            continue;
        elsif v_floor.limited then
            return query select l.* from batchq._lease_limited(
                queue, v_priority, v_floor.place, n - v_got, worker, lease_for, v_now) l;
        else
            return query
            with taken as materialized (
                select r.ctid from batchq.ready r
                where r.queue = lease.queue and r.priority = v_priority and r.pos >= v_floor.place
                order by r.pos limit lease.n - v_got for update skip locked
            ),
            moved as (
                delete from batchq.ready r using taken t where r.ctid = t.ctid
                returning r.job_id, r.segment, r.attempt, r.ties
            ),
            briefed as materialized (
                select m.*, nextval('batchq.lease_number') as lease_id, batchq._now()
                       + batchq._exact(coalesce(lease.lease_for, v_floor.lease_for, '60 s')) till,
                       j.kind, j.payload, j.max_attempts, j.timeout, j.headers
                from moved m join batchq.job j on j.id = m.job_id and j.segment = m.segment
            ),
            held as (
                insert into batchq.leased (job_id, lease_id, lease_until, reap_at, leased_at,
                    deadline, segment, priority, attempt, ties, queue, worker)
                select b.job_id, b.lease_id, b.till, b.till, v_now,
                       v_now + batchq._exact(b.timeout), b.segment, v_priority, b.attempt + 1,
                       b.ties, lease.queue, lease.worker from briefed b
            )
            select b.job_id, b.lease_id, b.till, lease.queue, b.kind, b.payload,
                   v_priority::integer, b.attempt + 1, b.max_attempts::integer, b.timeout,
                   b.headers from briefed b;
        end if;
        get diagnostics v_count = row_count;
        v_got := v_got + v_count;
    end loop;
end
$lease$;

comment on function batchq.lease is $comment$
Take up to n ready jobs of a queue, best first: highest priority, then the order in which they
became ready. Each comes with a lease: the right to run it until lease_until. Jobs that another
session is taking are skipped, not waited for. Due scheduled jobs become ready first. An empty
answer is exact: no committed job was there to take. An attempt is counted for each job.

queue: 1 to 255 characters. n: 1 to 10,000. worker: a name for people to read, at most 255
characters; ownership hangs on lease_id alone. lease_for: 0.1 s to 1 day; else the queue's,
else 60 s. Renew a lease with extend
before a third of it has passed, end it with complete, fail, release or snooze.

Returns: leased_job rows, best first; none if there is nothing to do or the queue is paused.
Errors: JQ001 a value is out of its bounds.
Role: batchq_worker. Call it in a transaction of its own and commit before running the job.
Example: select * from batchq.lease('default', n => 10, worker => 'w1')
$comment$;
