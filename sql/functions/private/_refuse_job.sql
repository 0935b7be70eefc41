-- Raise JQ001 for the first of these values that _job_fits does not take. place is added to the
-- message.
create or replace function batchq._refuse_job(
    kind text,
    payload jsonb,
    queue text,
    priority integer,
    place text default ''
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_refuse_job$
declare
    v_name text;
    v_value text;
    v_rule text;
begin
    select c.name, c.value, c.rule into v_name, v_value, v_rule
    from (values
        ('kind', kind, 'give 1 to 255 characters',
         batchq._name_fits(kind)),
        ('queue', queue, 'give 1 to 255 characters',
         batchq._name_fits(queue)),
        ('payload', coalesce(jsonb_typeof(payload), 'null'),
         'give any JSON value but null, at most 1 MiB',
         coalesce(payload <> 'null' and batchq._size(payload) <= 1048576, false)),
        ('priority', priority::text, 'give an integer from -32768 to 32767, higher first',
         coalesce(priority between -32768 and 32767, false))
    ) as c(name, value, rule, fits)
    where not c.fits
    limit 1;
    if found then
        perform batchq._raise('JQ001',
            format('invalid %s: %s%s', v_name, coalesce(quote_literal(left(v_value, 80)), 'null'),
                   place),
            v_rule);
    end if;
end
$_refuse_job$;
