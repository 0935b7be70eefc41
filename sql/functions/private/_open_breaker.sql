/*
 * Open the breaker of a kind if the share of failures is reached, among those ends of attempts that
 * are committed. The lock is only tried, so that no failure ever waits for another: whoever has
 * it is opening this breaker.
 *
 * 1651572532 is the lock's class.
 */
create or replace function batchq._open_breaker(queue batchq.queue, kind text, job_id bigint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_open_breaker$
declare
    v_now constant timestamptz := batchq._now();
    v_pause constant interval := batchq._breaker_pause(_open_breaker.queue);
    v_window constant interval :=
        coalesce((_open_breaker.queue).breaker_window, interval '60 s');
    v_ended integer;
    v_failed integer;
begin
    if exists (
        select from batchq.breaker b
        where b.queue = (_open_breaker.queue).queue and b.kind = _open_breaker.kind
          and b.closed_at is null)
    then
        return;
    end if;
    select sum(c.ended)::integer, sum(c.failed)::integer into v_ended, v_failed
    from (
        select e.ended, e.failed, bool_or(e.ended = 0) over (
                   order by e.ended_at desc, e.end_id desc rows unbounded preceding) as is_past
        from (
            select e.ended_at, e.end_id, e.ended, e.failed
            from batchq.attempt_end e
            where e.queue = (_open_breaker.queue).queue and e.kind = _open_breaker.kind
              and e.ended_at > v_now - v_window
            order by e.ended_at desc, e.end_id desc
            limit 1000) e
    ) c
    where not c.is_past;
    if not coalesce(v_ended >= coalesce((_open_breaker.queue).breaker_min, 10)
                    and v_failed >= (_open_breaker.queue).breaker_share * v_ended, false)
       or not pg_try_advisory_xact_lock(1651572532, hashtext(
                  ((_open_breaker.queue).queue || e'\x01' || _open_breaker.kind) collate "C"))
    then
        return;
    end if;
    delete from batchq.breaker b
    using (select b.ctid from batchq.breaker b
           where b.queue = (_open_breaker.queue).queue and b.kind = _open_breaker.kind
             and b.closed_at is not null
           for update skip locked) o
    where b.ctid = o.ctid;
    insert into batchq.breaker (opened_at, probe_at, held_until, ended, failed, queue, kind,
                                last_error)
    select v_now, v_now + v_pause, v_now + 10 * v_pause, v_ended, v_failed,
           (_open_breaker.queue).queue, _open_breaker.kind, batchq._error_of(_open_breaker.job_id)
    where not exists (
        select from batchq.breaker b
        where b.queue = (_open_breaker.queue).queue and b.kind = _open_breaker.kind)
    on conflict on constraint breaker_pkey do nothing;
end
$_open_breaker$;
