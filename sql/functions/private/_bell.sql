-- The bell of a queue. Few bells for any number of queues: a transaction that enqueues into ten
-- thousand of them holds at most 1,024 locks, and sharing one costs a needless look.
create or replace function batchq._bell(queue text)
returns integer
language sql
immutable
return hashtext(queue collate "C") & 1023;
