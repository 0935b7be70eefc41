/*
 * A job's UUID: RFC 9562 version 8. 48 + 12 bits of the installation, 62 bits of the id, around
 * the fixed bits of version and variant.
 */
create or replace function batchq.job_uuid(job_id bigint)
returns uuid
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $job_uuid$
declare
    v_prefix bigint;
begin
    if job_id not between 0 and 4611686018427387903 then
        perform batchq._raise('JQ001', format('invalid job id: %s', job_id),
            'give an id that batchq gave out');
    end if;
    select i.prefix into v_prefix from batchq.installation i;
    return (lpad(to_hex(v_prefix >> 12), 12, '0')
            || '8' || lpad(to_hex(v_prefix & 4095), 3, '0')
            || lpad(to_hex((1::bigint << 63) | job_id), 16, '0'))::uuid;
end
$job_uuid$;

comment on function batchq.job_uuid is $comment$
The UUID of a job: a reversible function of its id and of this installation, not stored anywhere.

job_id: 0 to 2^62 - 1.

Returns: the UUID (version 8); null for null.
Errors: JQ001 the id is out of its bounds.
Role: batchq_monitor, and every other role of batchq.
Example: select batchq.job_uuid(1)
$comment$;
