begin;
select plan(9);
\ir ../clock.psql

create function t.permits(line text default 'cap') returns text language sql as $$
    select coalesce(string_agg(p.n::text, ' ' order by p.n desc), '')
    from batchq.permit p where p.queue = 'q' and p.line = $1
$$;
insert into batchq.queue (queue, max_running, rate) values ('q', 100, 1);
select batchq._give_permits('q', 'cap', 17, null) \g /dev/null
select is(t.permits(), '7 7 3', 'a row holds at most a sixteenth of the limit');
select ok(min(p.place) > 0 and count(distinct p.place) = 3, 'places are new ones')
    from batchq.permit p;
select batchq._give_permits('q', 'rate', 2, t.now() + '1 h') \g /dev/null
select is(t.permits('rate'), '1 1', 'of the limit of its line');
select is(min(p.place), batchq._micros(t.now() + '1 h'), 'places of the rate are times')
    from batchq.permit p where p.line = 'rate';
select batchq._give_permits('q', 'cap', n, null) from unnest(array[0, -5, null]) n \g /dev/null
select is(t.permits(), '7 7 3', 'none is none');
update batchq.queue set max_running = null, rate = 0;
select batchq._give_permits('q', 'cap', 5, null) \g /dev/null
select is(t.permits(), '7 7 3', 'a limit that is gone takes none back');
select batchq._give_permits('none', 'cap', 5, null) \g /dev/null
select is((select count(*) from batchq.permit p where p.queue = 'none'), 0::bigint,
    'nor does a queue that is unknown');
select batchq._give_permits('q', 'rate', 2, t.now()) \g /dev/null
select is(t.permits('rate'), '1 1 1 1', 'a limit of 0 takes back what was given before');
update batchq.queue set max_running = 1000000;
select batchq._give_permits('q', 'cap', 1000000, null) \g /dev/null
select is((select count(*) from batchq.permit p where p.n = 62500), 16::bigint,
    'a million permits are few rows');

select * from finish();
rollback;
