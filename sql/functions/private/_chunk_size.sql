-- How many ids of job, or pages of a partition of outcome and error, the tally looks at at once: a
-- few milliseconds' work.
create or replace function batchq._chunk_size(axis text)
returns bigint
language sql
immutable
return case axis when 'job' then 4096 when 'outcome' then 24 else 4 end;
