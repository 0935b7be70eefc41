begin;
select plan(10);
\ir ../clock.psql

create function t.found(secret text) returns text language sql as $$
    select string_agg(k.name, ' ') from batchq.find_token(sha256($1::bytea)) k
$$;
select batchq.create_token('for ever', sha256('a'), '{work}') \g /dev/null
select batchq.create_token('a while', sha256('b'), '{work}', null, t.now() + interval '1 h')
    \g /dev/null
select is(t.found('a'), 'for ever', 'a token is found by the hash of its secret');
select is(t.found('x'), null, 'and by no other');
select is_empty(format('select * from batchq.find_token(%L)', v), format('nor by %L', v))
    from unnest(array[null, '', '\x00', 'a']) v;
select t.pass('3599.999999 s') \g /dev/null
select is(t.found('b'), 'a while', 'it is good until its time is over');
select t.pass('1 microsecond') \g /dev/null
select is(t.found('b'), null, 'and no longer');
select batchq.revoke_token('for ever') \g /dev/null
select is(t.found('a'), null, 'a revoked one is not found');

create function t.may(role text) returns text language plpgsql as $$
begin
    perform set_config('role', $1, true);
    perform batchq.find_token('a');
    perform set_config('role', 'none', true);
    return $1;
end
$$;
grant usage on schema t to public;
select is(string_agg(t.may('batchq_' || r), ' ' order by r),
    'batchq_monitor batchq_operator batchq_producer batchq_worker', 'F074 every role may call it')
    from unnest(array['producer', 'worker', 'operator', 'monitor']) r;

select * from finish();
rollback;
