begin;
select plan(9);
\ir ../clock.psql

insert into batchq.queue (queue, group_limit, group_retry) values
    ('one', 1, null), ('one-yield', 1, 'yield'), ('two', 2, null), ('two-hold', 2, 'hold');
insert into batchq.queue (queue, fair) values ('turns', true);
create function t.kept(ties integer, queue text) returns integer language sql as $$
    select batchq._kept_ties($1::smallint, $2)
$$;
select is(t.kept(15, 'one'), 13, 'one at a time: the seat is kept, the permit is not');
select is(t.kept(15, 'one-yield'), 5, 'unless the queue says yield');
select is(t.kept(15, 'two'), 5, 'more at a time: it is given back');
select is(t.kept(15, 'two-hold'), 13, 'unless the queue says hold');
select is(t.kept(31, 'two-hold'), 13, 'a permit to start is not kept');
select is(t.kept(15, 'turns'), 5, 'nor a seat where groups only take turns');
select is(t.kept(15, 'unknown'), 5, 'nor in a queue without settings');
select is(t.kept(3, 'one') || ' ' || t.kept(2, 'one') || ' ' || t.kept(7, 'two-hold'), '1 0 5',
    'a job without a seat keeps its dedupe key and its group');
select is(t.kept(0, 'one'), 0, 'nothing stays nothing');

select * from finish();
rollback;
