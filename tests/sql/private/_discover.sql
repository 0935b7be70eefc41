begin;
select plan(8);
\ir ../clock.psql

select is(batchq._discover('none'), false, 'a queue with nothing: no other look');
select batchq.enqueue('k', queue => 'lane', priority => 3) \g /dev/null
delete from batchq.floor where queue = 'lane';
select is(batchq._discover('lane'), true, 'an unknown lane: look again');
select is(batchq._discover('lane'), false, 'once it is known there is nothing to discover');
select batchq.enqueue('k', queue => 'due', delay => '1 s') as a \gset
insert into batchq.floor (queue, line, floor) values ('due', 'scheduled',
    batchq._micros(t.now() + interval '1 h'));
select is(batchq._discover('due'), false, 'a job that is not due is nothing');
select t.pass('2 s') \g /dev/null
select is(batchq._discover('due'), true, 'a due job below the floor of scheduled: look again');
select is(t.job(:a), 'ready:0', 'it was made ready');
insert into batchq.floor (queue, line, floor, hard_floor) values ('low', 'ready', 500, 100);
select is(batchq._discover('low'), true,
    'a floor above its hard floor: look again, rows may have surfaced between');
insert into batchq.floor (queue, line, floor, hard_floor) values ('flat', 'ready', 500, 500);
select is(batchq._discover('flat'), false, 'a floor on its hard floor hides nothing');

select * from finish();
rollback;
