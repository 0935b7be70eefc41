-- The catalogue of errors: the one place where a code gets its name and HTTP status.
create or replace function batchq.errors()
returns setof batchq.error_code
language plpgsql
immutable
security definer
set search_path = pg_catalog, pg_temp
as $errors$
begin
    return query values
        ('JQ001', 'invalid_argument', 400,
         'a value is missing, of the wrong type or out of its bounds'),
        ('JQ002', 'queue_not_found', 404, 'no queue of this name was ever used or set up'),
        ('JQ003', 'job_not_found', 404, 'no job of this id exists'),
        ('JQ004', 'lease_lost', 409, 'the lease was taken back, or the job ended otherwise'),
        ('JQ005', 'wrong_state', 409, 'the job''s state does not allow this'),
        ('JQ006', 'queue_full', 429, 'as many jobs wait in the queue as it may hold'),
        ('JQ009', 'version_mismatch', 503, 'client and schema do not fit each other');
end
$errors$;

comment on function batchq.errors is $comment$
Every error batchq raises by itself. The SQLSTATE is the code; the message names the value, the
hint says what to do.

Returns: code, name, http_status, description.
Role: batchq_monitor, and every other role of batchq.
Example: select code, name from batchq.errors()
$comment$;
