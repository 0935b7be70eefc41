-- The period of a queue's rate.
create or replace function batchq._period(queue batchq.queue)
returns interval
language sql
immutable
return batchq._exact(coalesce((queue).rate_period, interval '1 s'));
