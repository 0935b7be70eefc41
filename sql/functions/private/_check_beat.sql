-- Raise JQ001 for the first single value of beat_worker that is out of its bounds.
create or replace function batchq._check_beat(
    worker_id uuid,
    worker text,
    host text,
    pid integer,
    version text,
    concurrency integer,
    running integer,
    memory_bytes bigint,
    stopping boolean
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_beat$
declare
    v_name text;
    v_value text;
    v_rule text;
begin
    select c.name, c.value, c.rule into v_name, v_value, v_rule
    from (values
        ('worker_id', worker_id::text, 'give a UUID', worker_id is not null),
        ('worker', worker, 'give 1 to 255 characters', batchq._name_fits(worker)),
        ('host', host, 'give 1 to 255 characters', batchq._name_fits(host)),
        ('pid', pid::text, 'give 0 or more', coalesce(pid >= 0, false)),
        ('version', version, 'give 1 to 255 characters', batchq._name_fits(version)),
        ('concurrency', concurrency::text, 'give 0 or more', coalesce(concurrency >= 0, false)),
        ('running', running::text, 'give 0 or more', coalesce(running >= 0, false)),
        ('memory_bytes', memory_bytes::text, 'give 0 or more, or null',
         coalesce(memory_bytes >= 0, true)),
        ('stopping', stopping::text, 'give true or false', stopping is not null)
    ) as c(name, value, rule, fits)
    where not c.fits
    limit 1;
    if found then
        perform batchq._raise('JQ001',
            format('invalid %s: %s', v_name, coalesce(quote_literal(left(v_value, 80)), 'null')),
            v_rule);
    end if;
end
$_check_beat$;
