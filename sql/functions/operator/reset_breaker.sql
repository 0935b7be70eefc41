-- Closing a circuit breaker by hand.
create or replace function batchq.reset_breaker(queue text, kind text)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $reset_breaker$
begin
    perform batchq._check_lease(queue);
    perform batchq._check_queue_exists(queue);
    if not batchq._name_fits(kind) then
        perform batchq._raise('JQ001',
            format('invalid kind: %s', coalesce(quote_literal(left(kind, 80)), 'null')),
            'give 1 to 255 characters');
    end if;
    perform batchq._close_breaker(queue, kind);
    perform batchq._audit('reset_breaker', 'queue ' || queue, jsonb_build_object('kind', kind));
end
$reset_breaker$;

comment on function batchq.reset_breaker is $comment$
Close the circuit breaker of a kind of job: jobs that were held back are due, 1,000 at once and
more with each lease, and what failed until now does not count any more. Being asked twice, or
without a breaker that is open, is no error.

queue, kind: 1 to 255 characters.

Errors: JQ002 no such queue; JQ001 a name is out of its bounds.
Role: batchq_operator.
Example: select batchq.reset_breaker('mail', 'newsletter')
$comment$;
