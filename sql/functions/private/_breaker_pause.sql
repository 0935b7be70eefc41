-- How long a breaker of a queue holds jobs back before the next probe.
create or replace function batchq._breaker_pause(queue batchq.queue)
returns interval
language sql
immutable
return batchq._exact(coalesce((queue).breaker_pause, interval '30 s'));
