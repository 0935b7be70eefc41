-- Make ready what a line of a queue has in store: due jobs (scheduled), or the next jobs of groups
-- (round). Returns how many became ready.
create or replace function batchq._bring(
    queue text,
    line text,
    from_place bigint,
    at timestamptz
)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_bring$
begin
    if _bring.line = 'scheduled' then
        if batchq._is_due(_bring.queue, _bring.from_place, _bring.at) then
            return batchq._promote(_bring.queue, _bring.from_place, 1000);
        end if;
    elsif batchq._is_called(_bring.queue, _bring.from_place, _bring.at) then
        return batchq._admit(_bring.queue, _bring.from_place, 500);
    end if;
    return 0;
end
$_bring$;
