-- From one instant to another in seconds; 0 where that is earlier, null where it is not known.
create or replace function batchq._span_s(since timestamptz, until timestamptz)
returns double precision
language sql
immutable
return case when until > since then date_part('epoch', until - since)
            when until <= since then 0 end;
