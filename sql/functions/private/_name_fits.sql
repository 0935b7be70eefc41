-- Names of queues, kinds and groups: 1 to 255 characters, any script, never cut.
create or replace function batchq._name_fits(name text)
returns boolean
language sql
immutable
return coalesce(char_length(name) between 1 and 255, false);
