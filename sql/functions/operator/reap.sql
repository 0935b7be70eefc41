/*
 * Reaping: leases that ran out are taken back, as attempts that failed. Reads the expired end of
 * leased from its floor; rows that others hold (a completion under way, assert_lease) are skipped.
 * A lease that was renewed since it was last looked at is looked at again when it ends: this, once
 * a lease, is all that heartbeats cost the index.
 * Needs no list of workers and no job of its own; any caller may do it, at any time.
 */
create or replace function batchq.reap(n integer default 1000)
returns integer
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
as $reap$
declare
    v_now constant timestamptz := batchq._now();
    v_floor record;
    v_leases tid[];
    v_errors text[];
    v_alive tid[];
    v_reaped integer := 0;
begin
    if not coalesce(n between 1 and 10000, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 10,000');
    end if;
    select f.floor, f.sweep_after into v_floor
    from batchq.floor f
    where f.queue = '' and f.line = 'leased'
    order by f.generation desc
    limit 1;
    if v_floor.sweep_after <= v_now then
        perform batchq._sweep('', 'leased', 0::smallint);
        select f.floor into v_floor.floor
        from batchq.floor f
        where f.queue = '' and f.line = 'leased'
        order by f.generation desc
        limit 1;
    end if;
    loop
        select array_agg(e.lease) filter (where e.expired),
               array_agg(e.error) filter (where e.expired),
               array_agg(e.lease) filter (where not e.expired)
        into v_leases, v_errors, v_alive
        from (
            select l.ctid as lease, l.lease_until <= v_now as expired,
                   case when l.deadline <= v_now
                        then format('timed out after %s s',
                                    trim_scale(extract(epoch from l.deadline - l.leased_at)))
                        else format('lease expired: worker %s did not renew it',
                                    coalesce(l.worker, '?'))
                   end as error
            from batchq.leased l
            where l.reap_at >= batchq._instant(v_floor.floor) and l.reap_at <= v_now
            order by l.reap_at
            limit reap.n - v_reaped
            for update skip locked
        ) e;
        update batchq.leased l set reap_at = l.lease_until where l.ctid = any(v_alive);
        if v_leases is not null then
            perform batchq._end_attempts(v_leases, v_errors, null, null, true);
            v_reaped := v_reaped + cardinality(v_leases);
        end if;
        exit when v_alive is null or v_reaped >= n;  -- all that were looked at have moved on
    end loop;
    return v_reaped;
end
$reap$;

comment on function batchq.reap is $comment$
Take back leases that ran out: with attempts left the job waits out its backoff, without it is a
dead letter; one that was asked to stop is cancelled. The attempt's error says that the lease
expired, or that the job's timeout was over. Workers call it through maintain; any caller may.

n: at most so many leases a call, 1 to 10,000.

Returns: how many were taken back; call again while it returns n.
Errors: JQ001 n is out of its bounds.
Role: batchq_operator.
Example: select batchq.reap()
$comment$;
