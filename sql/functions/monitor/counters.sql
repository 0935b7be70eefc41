-- What has happened so far: sums of what the tally has counted. Leases are the sequence's numbers.
create or replace function batchq.counters()
returns batchq.job_counters
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $counters$
declare
    v_counters batchq.job_counters;
begin
    select s.enqueued,
           coalesce(pg_sequence_last_value('batchq.lease_number'), 0) - t.leases_before,
           s.completed, s.failed, s.retried, s.reaped, s.dead_letters, s.cancelled, t.since,
           t.tallied_at
    into v_counters
    from batchq.tally t,
         (select sum(k.enqueued)::bigint as enqueued, sum(k.completed)::bigint as completed,
                 sum(k.failed)::bigint as failed, sum(k.retried)::bigint as retried,
                 sum(k.reaped)::bigint as reaped, sum(k.dead_letters)::bigint as dead_letters,
                 sum(k.cancelled)::bigint as cancelled
          from batchq.tally_total k) s;
    return v_counters;
end
$counters$;

comment on function batchq.counters is $comment$
What has happened since batchq (or this part of it) was installed, for rates. Counters never go
down. Costs the same however many jobs there are: maintain adds to them every few seconds, so
nothing happens to them where nobody calls it.

Returns: job_counters. enqueued: jobs that were added; completed, cancelled: jobs that are over;
failed: attempts that failed; reaped: attempts whose lease ran out; retried: how many of these two
were followed by a wait for the next attempt; dead_letters: how many were not, and the job became a
dead letter. Each is counted exactly once, when its transaction has committed, and those that had
begun before tallied_at are in (a few seconds ago; those of a transaction that stays open come when
it ends, and where VACUUM or purge made room, new rows may be found minutes late). started: leases
that were handed out up to now, also by transactions that were rolled back; a crash of the server
may add up to 32. since: where they began.
Role: batchq_monitor, and every other role of batchq.
Example: select completed, failed, tallied_at from batchq.counters()
$comment$;
