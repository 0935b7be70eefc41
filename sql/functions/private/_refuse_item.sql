/*
 * Raise JQ001 for one object of enqueue_many's array: not an object, an unknown field, a value
 * that is not of its type, or one out of its bounds. Returns nothing when it finds no fault.
 */
create or replace function batchq._refuse_item(job jsonb, ordinal bigint)
returns boolean
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_refuse_item$
declare
    v_place constant text := format(' (job %s)', _refuse_item.ordinal);
    v_field text;
    v_spec batchq.job_spec;
begin
    if jsonb_typeof(_refuse_item.job) is distinct from 'object' then
        perform batchq._raise('JQ001',
            format('invalid job: %s%s', coalesce(jsonb_typeof(_refuse_item.job), 'null'), v_place),
            'give one JSON object for each job');
    end if;
    select k.field into v_field
    from jsonb_object_keys(_refuse_item.job) as k(field)
    where k.field <> all(batchq._job_fields())
    limit 1;
    if found then
        perform batchq._raise('JQ001',
            format('unknown field: %s%s', quote_literal(left(v_field, 80)), v_place),
            'fields are ' || array_to_string(batchq._job_fields(), ', '));
    end if;
    begin
        v_spec := jsonb_populate_record(null::batchq.job_spec, _refuse_item.job);
    exception when data_exception then
        perform batchq._raise('JQ001', sqlerrm || v_place, 'see the bounds of enqueue');
    end;
    perform batchq._refuse_job(
        v_spec.kind, coalesce(_refuse_item.job -> 'payload', '{}'),
        coalesce(v_spec.queue, 'default'), coalesce(v_spec.priority, 0), v_place);
    perform batchq._check_options(
        v_spec.run_at, v_spec.delay, v_spec.max_attempts, v_spec.timeout, v_spec.dedupe_key,
        v_spec.dedupe_scope, v_spec.dedupe_for, v_spec.on_duplicate, v_spec.backoff,
        v_spec.backoff_base, v_spec.backoff_factor, v_spec.backoff_cap, v_spec.backoff_jitter,
        v_spec.headers, v_spec.group_key, v_place);
    return false;
end
$_refuse_item$;
