-- The step of throughput if it and since are within their bounds, else JQ001.
create or replace function batchq._step(since interval, step interval)
returns interval
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_step$
begin
    if not coalesce(batchq._span_fits(_step.since, '1 minute', '7 days'), false) then
        perform batchq._raise('JQ001',
            format('invalid since: %s', coalesce(_step.since::text, 'null')),
            'give 1 minute to 7 days');
    elsif not coalesce(batchq._span_fits(_step.step, '1 minute', '1 day')
                       and extract(epoch from _step.step) % 60 = 0, false) then
        perform batchq._raise('JQ001',
            format('invalid step: %s', coalesce(_step.step::text, 'null')),
            'give whole minutes, up to 1 day');
    end if;
    return _step.step;
end
$_step$;
