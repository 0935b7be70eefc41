-- Raise an error of the catalogue. code is one of batchq.errors().
create or replace function batchq._raise(code text, message text, hint text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_raise$
begin
    raise exception using errcode = _raise.code, message = _raise.message, hint = _raise.hint;
end
$_raise$;
