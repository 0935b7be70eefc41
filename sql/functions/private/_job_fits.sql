-- Whether enqueue may take these values; _refuse_job says what is wrong when it may not. Stable,
-- as _size is: marked immutable it would not be inlined.
create or replace function batchq._job_fits(
    kind text,
    payload jsonb,
    queue text,
    priority integer
)
returns boolean
language sql
stable
return coalesce(
    char_length(kind) between 1 and 255
    and char_length(queue) between 1 and 255
    and payload <> 'null'::jsonb and batchq._size(payload) <= 1048576
    and priority between -32768 and 32767,
    false);
