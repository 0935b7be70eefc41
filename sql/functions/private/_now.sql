-- The only clock. Tests replace it.
create or replace function batchq._now()
returns timestamptz
language sql
volatile
return clock_timestamp();
