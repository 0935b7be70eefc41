-- Whether a transaction is over by a mark of the tally, and was not by the one before.
create or replace function batchq._is_new(
    xid bigint,
    known_upto bigint,
    known_running bigint[],
    upto bigint,
    running bigint[]
)
returns boolean
language sql
immutable
return (xid >= known_upto or xid = any(known_running)) and xid < upto and xid <> all(running);
