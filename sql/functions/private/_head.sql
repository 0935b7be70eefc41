-- The end of a line that transactions from now on will add beyond. Lines that run on time end a
-- second ago, as a clock may step back a little.
create or replace function batchq._head(line text, at timestamptz)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $_head$
declare
    v_head bigint;
begin
    if _head.line not in ('ready', 'cap') then
        return batchq._micros(_head.at) - 1000000;
    end if;
    select s.last_value into v_head from batchq.position s;
    return v_head;
end
$_head$;
