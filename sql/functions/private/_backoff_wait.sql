/*
 * The wait before the next attempt, one draw a call. Settings of the job go before those of the
 * queue, those before the defaults: exponential, base 10 s, factor 2, cap 1 h, full jitter.
 *
 * Full jitter is uniform between 0 and the bound, so that jobs that failed together do not come
 * back together (AWS Architecture Blog, "Exponential Backoff And Jitter", 2015).
 */
create or replace function batchq._backoff_wait(attempt integer, job batchq.job, queue batchq.queue)
returns interval
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_backoff_wait$
declare
    v_bound constant double precision := batchq._backoff_bound(
        _backoff_wait.attempt,
        coalesce((job).backoff, (queue).backoff, 'exponential'),
        coalesce((job).backoff_base, (queue).backoff_base, interval '10 s'),
        coalesce((job).backoff_factor, (queue).backoff_factor, 2),
        coalesce((job).backoff_cap, (queue).backoff_cap, interval '1 h'));
    v_jitter constant text := coalesce((job).backoff_jitter, (queue).backoff_jitter,
        case when coalesce((job).backoff, (queue).backoff) = 'fixed' then 'none' else 'full' end);
begin
    return make_interval(secs => case v_jitter when 'full' then v_bound * random()
                                               else v_bound end);
end
$_backoff_wait$;
