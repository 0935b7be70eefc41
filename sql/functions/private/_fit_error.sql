-- The text of an error as it is kept: at most 2,048 characters (8 KiB), head and tail.
create or replace function batchq._fit_error(error text)
returns text
language sql
stable
return case
    when error is null or error = '' then 'no error text was given'
    when char_length(error) <= 2048 then error
    else left(error, 1024)
         || format(' … %s characters cut … ', char_length(error) - 1984)
         || right(error, 960)
end;
