begin;
select plan(23);
\ir ../clock.psql

create function t.claim(queue text, key text, job_id bigint, scope text default 'unfinished',
    held_until timestamptz default null) returns bigint language sql as $$
    select batchq._claim_key($1, $2, $3, 0::smallint, $4, $5)
$$;
select is(t.claim('q', 'K', 7000001), 7000001::bigint, 'a free key is claimed');
select is((select job_id from batchq.dedupe where queue = 'q' and dedupe_key = 'K'),
    7000001::bigint, 'and noted');
select is(t.claim('q', 'K', 7000002), 7000002::bigint,
    'a hold whose job is not alive is taken over');
select is(t.claim('r', 'K', 7000003), 7000003::bigint, 'keys are of a queue');
select is((select count(*) from batchq.dedupe), 2::bigint, 'one row a key');
select is(t.claim('q', 'W', 7000004, held_until => t.now() + interval '5 s'), 7000004::bigint,
    'a window is noted');
select t.pass('4.999 s') \g /dev/null
select is(t.claim('q', 'W', 7000005), 7000004::bigint,
    'C-6 inside it its job holds the key, alive or not');
select t.pass('1 ms') \g /dev/null
select is(t.claim('q', 'W', 7000005), 7000005::bigint, 'C-6 at its end it is taken over');
select is((select held_until from batchq.dedupe where dedupe_key = 'W'), null,
    'with the window of the new one');
create temporary table s as select x.state, t.job_in(x.state, 's-' || x.state, 'K') as id
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled']) x(state);
select is(t.claim('s-' || s.state, 'K', 8000000 + row_number() over (), p.scope) = s.id,
    s.state in ('ready', 'scheduled') or (s.state = 'leased' and p.scope = 'unfinished'),
    format('C-6 a %s job under %s', s.state, p.scope))
from s, unnest(array['unfinished', 'pending']) p(scope) order by s.id, p.scope desc;
select throws_ok($$ insert into batchq.dedupe (queue, dedupe_key, job_id,
    segment) values ('s-ready', 'K', 1, 0) $$, '23505', null,
    'A-62 that a key has one holder is enforced by an index');
select is(t.claim('s-ready', 'k', 9000001), 9000001::bigint, 'F023 keys differ in case');

select * from finish();
rollback;
