begin;
select plan(16);
\ir ../clock.psql

create function t.permits(line text default 'cap') returns text language sql as $$
    select coalesce(string_agg(p.n::text, ' ' order by p.n desc), '')
    from batchq.permit p where p.queue = 'q' and p.line = $1
$$;
create function t.take_permits(n bigint, line text default 'cap') returns bigint language sql as $$
    select batchq._take_permits('q', $2, $1, batchq._now())
$$;
select batchq.set_queue('q', max_running => 32, rate => 32, rate_period => '10 s') \g /dev/null
select is(t.permits(), concat_ws(' ', variadic array_fill(2, array[16])),
    'permits are kept in sixteenths of the limit');
select is(t.take_permits(5), 5::bigint, 'as many are taken as are wanted');
select is(t.free('q'), 27::bigint, 'and no more');
select is(t.take_permits(1000), 27::bigint, 'else all there are');
select is(t.take_permits(1), 0::bigint, 'then none');
select batchq._give_permits('q', 'cap', 3, null), batchq._give_permits('q', 'cap', 4, null)
    \g /dev/null
select is(t.take_permits(6) || ' ' || t.permits(), '6 1', 'from rows of any size');
select is(t.free('q', 'rate'), 32::bigint, 'one line leaves the other alone');

-- places
select t.take_permits(30) \g /dev/null
select batchq._give_permits('q', 'cap', 1, null) from generate_series(1, 3) \g /dev/null
select min(place) as first from batchq.permit p where p.queue = 'q' and p.line = 'cap' \gset
select t.take_permits(1) \g /dev/null
select is((select count(*) from batchq.permit p where p.place = :first), 0::bigint,
    'the oldest go first');
select batchq._give_permits('q', 'rate', 2, t.now() + '5 s') \g /dev/null
delete from batchq.permit p where p.line = 'rate' and p.place <= batchq._micros(t.now());
select is(t.take_permits(9, 'rate'), 0::bigint, 'permits to start are not taken before their time');
select t.pass('5 s') \g /dev/null
select is(t.take_permits(1, 'rate') || ' ' || t.free('q', 'rate'), '1 1', 'then they are');
select is((select p.place from batchq.permit p where p.queue = 'q' and p.line = 'rate'),
    batchq._micros(t.now()), 'what is put back may be taken at once');

-- floors
select batchq._give_permits('q', 'cap', 1, null) from generate_series(1, 2000) \g /dev/null
select t.take_permits(1500) \g /dev/null
select t.pass('3 s'), t.take_permits(1) \g /dev/null
select ok(max(f.floor) > :first, 'the line has a floor that moves up')
    from batchq.floor f where f.queue = 'q' and f.line = 'cap';
insert into batchq.permit (place, n, queue, line) values (:first, 2, 'q', 'cap');
select is(t.take_permits(100000), 503::bigint, 'permits below it are found at the second look');
delete from batchq.floor f where f.queue = 'q' and f.line = 'cap';
select batchq._give_permits('q', 'cap', 7, null) \g /dev/null
select is(t.take_permits(100), 7::bigint, 'a line without a floor is read from its beginning');
select is(batchq._take_permits('unknown', 'cap', 1, t.now()), 0::bigint,
    'a queue without limits has none');
select is((select count(*) from batchq.permit p where p.n < 1), 0::bigint, 'no row is empty');

select * from finish();
rollback;
