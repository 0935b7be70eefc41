-- Write down a call that did something to count jobs, with the filters it was given. Of a long list
-- of ids the first 100 are kept, and how many there were.
create or replace function batchq._audit_many(
    action text,
    count bigint,
    queue text,
    job_ids bigint[],
    details jsonb
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_audit_many$
begin
    if count > 0 then
        perform batchq._audit(action, 'queue ' || queue, details || jsonb_build_object(
            'count', count,
            'queue', queue,
            'job_ids', to_jsonb(case when cardinality(job_ids) > 100
                                     then array(select i.id from unnest(job_ids) as i(id) limit 100)
                                     else job_ids end),
            'given', nullif(greatest(cardinality(job_ids), 100), 100)));
    end if;
end
$_audit_many$;
