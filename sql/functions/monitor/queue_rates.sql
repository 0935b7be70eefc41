-- Rates by queue over the last whole minutes that the tally has counted: one probe a queue.
create or replace function batchq.queue_rates(over interval default '1 minute')
returns setof batchq.queue_rate
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
as $queue_rates$
declare
    v_tallied_at timestamptz;
    v_since timestamptz;
    v_until timestamptz;
    v_seconds double precision;
begin
    if not coalesce(batchq._span_fits(queue_rates.over, '1 minute', '1 hour'), false) then
        perform batchq._raise('JQ001',
            format('invalid over: %s', coalesce(queue_rates.over::text, 'null')),
            'give 1 minute to 1 hour');
    end if;
    select t.tallied_at into v_tallied_at from batchq.tally t;
    if v_tallied_at < batchq._now() - interval '5 minutes' then
        return;
    end if;
    v_until := batchq._minute(v_tallied_at);
    v_since := batchq._minute(v_until - batchq._exact(queue_rates.over));
    v_seconds := batchq._span_s(v_since, v_until);
    return query
    select t.queue, coalesce(sum(m.enqueued), 0) / v_seconds,
           coalesce(sum(m.completed), 0) / v_seconds,
           coalesce(sum(m.failed + m.reaped), 0) / v_seconds,
           coalesce(sum(m.completed + m.cancelled + m.dead_letters), 0) / v_seconds,
           v_since, v_until
    from (select distinct k.queue::text from batchq.tally_total k where k.queue <> '') t
    left join batchq.rollup m
      on m.queue = t.queue and m.kind = '' and m.span = 1 and m.at >= v_since and m.at < v_until
    group by t.queue
    order by t.queue;
end
$queue_rates$;

comment on function batchq.queue_rates is $comment$
How many jobs a second come and go in each queue, over the last whole minutes that upkeep has
counted. What is left of a queue, divided by ended - enqueued, is the time to drain it at this rate.

over: 1 minute to 1 hour; a part of a minute more counts as a minute.

Returns: queue_rate rows in order of queue, for the queues of the 1,000 pairs of queue and kind
that have counters; a queue that is not among them is not known. enqueued, completed, ended: jobs a
second; ended are those that were completed, cancelled or became dead letters; failed: attempts a
second that failed or whose lease ran out. since, until: the time looked at, which is over by a
minute or so. No row at all where upkeep has not counted for 5 minutes. What a transaction did that
stayed open until later is missing, as kind_counters says.
Errors: JQ001 over is out of bounds.
Role: batchq_monitor, and every other role of batchq.
Example: select queue, enqueued, ended from batchq.queue_rates('5 minutes')
$comment$;
