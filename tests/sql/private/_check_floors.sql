begin;
select plan(12);
\ir ../clock.psql
set local client_min_messages = error;

select batchq.enqueue('k', queue => 'q', priority => 2) as a,
    batchq.enqueue('k', queue => 's', delay => '1 s') as s,
    batchq.enqueue('k', queue => 'l') as l \gset
select is(batchq._check_floors(), 0::bigint, 'no row stands below a hard floor');
select is((select breaches from batchq.upkeep where task = 'floors'), 0, 'and none is counted');
insert into batchq.floor (queue, line, priority, floor, hard_floor, sweep_after) select 'q',
    'ready', 2, last_value + 10, last_value + 10, 'infinity' from batchq.position;
select is(t.take('q'), null, 'a row below a hard floor is not seen, were there one');
select is(batchq._check_floors(), 1::bigint, 'it is found');
select is((select breaches from batchq.upkeep where task = 'floors'), 1, 'F097 and counted');
select is(t.take('q'), :'a', 'and served');
select is(batchq._check_floors(), 0::bigint, 'then all is well');
insert into batchq.floor (queue, line, floor, hard_floor, sweep_after) values ('s', 'scheduled',
    batchq._micros(t.now() + interval '1 h'), batchq._micros(t.now() + interval '1 h'), 'infinity');
select t.pass('2 s') \g /dev/null
select is(batchq._check_floors(), 1::bigint, 'so is one of scheduled');
select is(t.take('s'), :'s', 'and served');
select batchq.lease('l', lease_for => '1 s') \g /dev/null
insert into batchq.floor (queue, line, floor, hard_floor, sweep_after) values ('', 'leased',
    batchq._micros(t.now() + interval '1 h'), batchq._micros(t.now() + interval '1 h'), 'infinity');
select t.pass('2 s') \g /dev/null
select is(batchq.reap(), 0, 'a lease below a hard floor is not seen');
select is(batchq._check_floors() > 0, true, 'but found');
select ok(batchq.reap() >= 1 and t.job(:l) = 'scheduled:1', 'and taken back');

select * from finish();
rollback;
