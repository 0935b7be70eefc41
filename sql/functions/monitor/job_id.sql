-- The inverse of job_uuid, which also takes the number as text.
create or replace function batchq.job_id(job text)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $job_id$
declare
    v_hex constant text := lower(replace(job, '-', ''));
    v_id bigint;
begin
    if job ~ '^[0-9]{1,19}$' and job::numeric <= 4611686018427387903 then
        return job::bigint;
    end if;
    if job ~* '^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' then
        v_id := ('x' || right(v_hex, 16))::bit(64)::bigint & 4611686018427387903;
        if batchq.job_uuid(v_id) = job::uuid then
            return v_id;
        end if;
        perform batchq._raise('JQ003', format('no job %s', job),
            'this UUID was made by another installation of batchq');
    end if;
    perform batchq._raise('JQ001',
        format('invalid job id: %s', coalesce(quote_literal(left(job, 80)), 'null')),
        'give the number or the UUID that enqueue gave');
    return null;
end
$job_id$;

comment on function batchq.job_id is $comment$
The id of a job from what people write: its number or its UUID.

job: digits, or a UUID as job_uuid writes it.

Returns: the id. The job need not exist.
Errors: JQ001 neither a number nor such a UUID; JQ003 a UUID of another installation.
Role: batchq_monitor, and every other role of batchq.
Example: select batchq.job_id(batchq.job_uuid(1)::text)
$comment$;
