-- When a permit to start that was not used may be taken again by the call that began at a time:
-- then already, but not before the head of the line, which is a second ago. See _head.
create or replace function batchq._at_once(at timestamptz)
returns timestamptz
language sql
volatile
return greatest(least(_at_once.at, batchq._now()), batchq._now() - interval '0.5 s');
