-- The ties of a job that starts in a limited queue: it has a permit of the queue if there is a
-- cap, used up its permit to start, gave its seat back if that was for its turn, and is watched if
-- there is a circuit breaker.
create or replace function batchq._ties_of_start(ties smallint, queue batchq.queue, turn boolean)
returns integer
language sql
stable
return _ties_of_start.ties & ~16 & case when turn then ~8 else ~0 end
       | case when (queue).max_running is null then 0 else 2 end
       | case when (queue).breaker_share is null then 0 else 32 end;
