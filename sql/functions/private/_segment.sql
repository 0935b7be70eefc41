-- The segment that new jobs go to. Read from a sequence: there is no row to lock or to bloat.
create or replace function batchq._segment()
returns smallint
language sql
volatile
return pg_sequence_last_value('batchq.current_segment')::smallint;
