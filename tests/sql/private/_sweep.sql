begin;
select plan(19);
\ir ../clock.psql

create function t.floor(queue text, line text default 'ready',
    priority integer default 0) returns batchq.floor language sql as $$
    select f from batchq.floor f where f.queue = $1 and f.line = $2 and f.priority = $3
    order by f.generation desc limit 1
$$;
-- a floor row whose mark has passed, as its mark_xid is long gone; or has not, as the row is of a
-- subtransaction of this one
create function t.set_floor(queue text, line text, floor bigint, hard bigint, mark bigint,
                            passed boolean default true)
returns void language plpgsql as $$
begin
    insert into batchq.floor (queue, line, floor, hard_floor, mark, mark_xid)
    values ($1, $2, $3, $4, $5, case when $6 then 3 end);
exception when assert_failure then
    raise;
end
$$;

-- ready: floor is the lowest place that is there
select batchq.enqueue('k', queue => 'q') as j from generate_series(1, 3000) limit 1 \gset
select batchq.enqueue('k', queue => 'q') from generate_series(1, 3000) \g /dev/null
select t.set_floor('q', 'ready', 0, 0, 0) \g /dev/null
select batchq._sweep('q', 'ready', 0::smallint) \g /dev/null
select is((t.floor('q')).floor, (select min(pos) from batchq.ready where queue = 'q'),
    'the floor is the lowest place of the lane');
delete from batchq.ready where queue = 'q' and pos in (select pos from batchq.ready
    where queue = 'q' order by pos limit 2000);
select batchq._sweep('q', 'ready', 0::smallint) \g /dev/null
select is((t.floor('q')).floor, (select min(pos) from batchq.ready where queue = 'q'),
    'it follows what was taken');
delete from batchq.ready where queue = 'q';
select batchq._sweep('q', 'ready', 0::smallint) \g /dev/null
select ok((t.floor('q')).floor between :j + 2500 and (select last_value from batchq.position),
    'of an empty lane it is the head of the line at most');
select batchq.enqueue('k', queue => 'q') as later \gset
select ok((t.floor('q')).floor <= :later, 'so a job that is added then stands above it');
select ok((select count(*) from batchq.floor where queue = 'q') <= 12, 'F050 old rows are dropped');

-- hard floor: raised to a mark that has passed, never past a row
select t.set_floor('h', 'ready', 100, 10, 60) \g /dev/null
insert into batchq.ready (pos, job_id, segment, priority, attempt, ties, queue) values (50, -1, 0,
    0, 0, 0, 'h');
select batchq._sweep('h', 'ready', 0::smallint) \g /dev/null
select is((t.floor('h')).hard_floor, 50::bigint,
    'the hard floor never passes a row that is visible, committed late below the floor');
select is((t.floor('h')).floor, 50::bigint, 'and the floor goes back to it');
delete from batchq.ready where queue = 'h';
insert into batchq.ready (pos, job_id, segment, priority, attempt, ties, queue) values (5000, -2,
    0, 0, 0, 0, 'h');
select t.set_floor('h2', 'ready', 100, 10, 60) \g /dev/null
select batchq._sweep('h2', 'ready', 0::smallint) \g /dev/null
select is((t.floor('h2')).hard_floor, 60::bigint,
    'with nothing there it rises to the mark that has passed');
select ok((t.floor('h2')).mark > 60, 'and a new mark is set, at the head of the line');
select t.set_floor('h3', 'ready', 5000, 10, 600, false) \g /dev/null
select batchq._sweep('h3', 'ready', 0::smallint) \g /dev/null
select is((t.floor('h3')).hard_floor || ' ' || (t.floor('h3')).mark, '10 600',
    'a mark that has not passed stays, and the hard floor with it');
select ok((t.floor('h3')).mark_xid is not null, 'it still waits for the same xid');

-- scheduled and leased run on time
select batchq.enqueue('k', queue => 's', delay => '10 s') as s \gset
select batchq._sweep('s', 'scheduled', 0::smallint) \g /dev/null
select ok(batchq._instant((t.floor('s', 'scheduled')).floor) <= t.now() - interval '1 s',
    'the floor of scheduled stays a second behind the clock, as a clock may step back');
select t.pass('20 s') \g /dev/null
select batchq._sweep('s', 'scheduled', 0::smallint) \g /dev/null
select is(batchq._instant((t.floor('s', 'scheduled')).floor),
    (select run_at from batchq.scheduled where job_id = :s), 'and at the earliest that is there');
delete from batchq.scheduled where job_id = :s;
select t.pass('20 s') \g /dev/null
select batchq._sweep('s', 'scheduled', 0::smallint) \g /dev/null
select is(batchq._instant((t.floor('s', 'scheduled')).floor), t.now() - interval '1 s',
    'with none left it follows the clock');
select t.pass('-10 s') \g /dev/null
select batchq._sweep('s', 'scheduled', 0::smallint) \g /dev/null
select is(t.code($$ select batchq.enqueue('k', queue => 's', delay => '1 s') $$), 'ok',
    'F054 when the clock steps back more than that');
select t.pass('2 s') \g /dev/null
select isnt(t.take('s'), null, 'F054 a job whose time is below the floor is leased all the same');
select batchq.enqueue('k', queue => 'l') as l \gset
select batchq.lease('l', lease_for => '5 s') \g /dev/null
select t.pass('60 s') \g /dev/null
select batchq._sweep('', 'leased', 0::smallint) \g /dev/null
select is(batchq._instant((t.floor('', 'leased')).floor),
    (select min(lease_until) from batchq.leased),
    'the floor of leased is the earliest end of a lease');

-- not where it could learn nothing
select (t.floor('q')).generation as generation \gset
savepoint other;
select t.pass('1 h') \g /dev/null
select batchq._sweep('q', 'ready', 0::smallint) \g /dev/null
select ok((t.floor('q')).generation > :generation, 'a sweep writes a row of a higher generation');
select ok((t.floor('q')).sweep_after > t.now(), 'and says when the next may come');

select * from finish();
rollback;
