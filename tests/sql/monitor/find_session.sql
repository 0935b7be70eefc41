begin;
select plan(14);
\ir ../clock.psql

create function t.found(secret text) returns text language sql as $$
    select string_agg(k.name, ' ') from batchq.find_session(sha256($1::bytea)) k
$$;
select batchq.create_token('ann', sha256('a'), '{operate,monitor}', '{q}') as id \gset
select batchq.create_token('a while', sha256('b'), '{work}', null, t.now() + interval '1 h')
    \g /dev/null
select t.pass('1 s') \g /dev/null
select batchq.open_session(sha256('a'), sha256('1'), '1 h') \g /dev/null
select batchq.open_session(sha256('b'), sha256('2')) \g /dev/null
select batchq.open_session(sha256('a'), sha256('3'), '2 h') \g /dev/null
select is(to_jsonb(s), jsonb_build_object('token_id', :id, 'name', 'ann', 'scopes',
    '["operate", "monitor"]'::jsonb, 'queues', '["q"]'::jsonb, 'created_at', t.now() - interval '1 s',
    'expires_at', null, 'revoked_at', null, 'ends_at', t.now() + interval '1 h'),
    'a session is its token, and when it ends') from batchq.find_session(sha256('1')) s;
select is(t.found('2'), 'a while', 'each is found by the hash of its own secret');
select is(t.found(v), null, format('and not by %L', v)) from unnest(array['a', 'x', '']) v;
select is_empty(format('select * from batchq.find_session(%L)', v), format('nor by %L', v))
    from unnest(array[null, '', '\x00', 'a']) v;
select t.pass('3598.999999 s') \g /dev/null
select is(t.found('1') || t.found('2'), 'anna while', 'it is good until its time is over');
select t.pass('1 microsecond') \g /dev/null
select is(t.found('2'), null, 'or that of its token');
select t.pass('1 s') \g /dev/null
select is(t.found('1'), null, 'and no longer');
select is(t.found('3'), 'ann', 'another of the token may still be');
select batchq.revoke_token('ann') \g /dev/null
select is(t.found('3'), null, 'a token that is revoked ends its sessions at once');

select * from finish();
rollback;
