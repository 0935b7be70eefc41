-- A time as people read it, in UTC.
create or replace function batchq._stamp(at timestamptz)
returns text
language sql
stable
return case when isfinite(at) then to_char(at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"')
            else at::text end;
