begin;
select plan(5);
\ir ../clock.psql

create function t.unseen() returns text language sql as $$ select string_agg(q, ' '
    order by q collate "C") from batchq._unseen_queues() q $$;
select is(t.unseen(), null, 'with no job there is none');
select batchq.enqueue('k', queue => q) from unnest(array['m', 'a', 'z', 'Z', 'é', 'm',
    repeat('𝄞', 2)]) q \g /dev/null
select is(t.unseen(), 'Z a m z é ' || repeat('𝄞', 2), 'queues nobody has leased from, each once');
select batchq.lease('m') \g /dev/null
select is(t.unseen(), 'Z a z é ' || repeat('𝄞', 2), 'one that was leased from is known');
select batchq.enqueue('k', queue => 'm'), batchq.enqueue('k', queue => 'b', priority => 1),
    batchq.enqueue('k', queue => 'y') \g /dev/null
select is(t.unseen(), 'Z a y z é ' || repeat('𝄞', 2),
    'so is one with another priority; new ones are found in the gaps');
select batchq.lease(q) from unnest(array['Z', 'a', 'y', 'z', 'é', repeat('𝄞', 2)]) q \g /dev/null
select is(t.unseen(), null, 'in the end all are known');

select * from finish();
rollback;
