begin;
select plan(26);
\ir ../clock.psql

select batchq.create_token('for ever', sha256('a'), '{work}') \g /dev/null
select batchq.create_token('a while', sha256('b'), '{work}', null, t.now() + interval '1 h')
    \g /dev/null
select is(batchq.open_session(sha256('a'), sha256('1')), t.now() + interval '12 h',
    'a session lasts 12 hours');
select is(batchq.open_session(sha256('a'), sha256('2'), '30 days'), t.now() + interval '720 h',
    'or as long as it is asked for, up to 30 days of 24 hours');
select is(batchq.open_session(sha256('a'), sha256('3'), '1 min'), t.now() + interval '1 min',
    'a minute at least');
select is(batchq.open_session(sha256('b'), sha256('4')), t.now() + interval '1 h',
    'but no longer than its token');
select is((select count(*) from batchq.session), 4::bigint, 'a token may have many');
select is(batchq.open_session(sha256('x'), sha256('5')), null, 'no token, no session');
select is(batchq.open_session(v, sha256('5')), null, format('nor for %L', v))
    from unnest(array[null, '', '\x00'::bytea]) v;
select t.pass('1 h') \g /dev/null
select is(batchq.open_session(sha256('b'), sha256('5')), null, 'nor for a token that has expired');
select batchq.revoke_token('for ever') \g /dev/null
select is(batchq.open_session(sha256('a'), sha256('5')), null, 'or was revoked');
select is((select count(*) from batchq.session), 4::bigint, 'and nothing was written');

select batchq.create_token('c', sha256('c'), '{work}') \g /dev/null
select throws_ok(format('select batchq.open_session(sha256(''c''), %L)', v), 'JQ001', null,
    format('F022 session_hash %L is refused', left(v::text, 9)))
    from unnest(array[null, '', '\x00', sha256('1') || '\x00'::bytea]) v;
select throws_ok(format('select batchq.open_session(sha256(''c''), sha256(''5''), %L)', v), 'JQ001',
    null, format('F065 lasts %L is refused', v))
    from unnest(array[null, '59.999999 s', '30 days 1 us', '-1 h', '100 years -36520 days']) v;
select is(t.message($$ select batchq.open_session(sha256('c'), sha256('1')) $$),
    'there is a session of this hash', 'a secret is for one session');
select is(f.name, 'for ever', 'which stays what it was') from batchq.session s
    join batchq.token f on f.token_id = s.token_id where s.hash = sha256('1');

create function t.may(role text) returns text language plpgsql as $$
begin
    perform set_config('role', $1, true);
    perform batchq.open_session(sha256('c'), sha256($1::bytea));
    perform batchq.find_session(sha256($1::bytea));
    perform batchq.close_session(sha256($1::bytea));
    perform set_config('role', 'none', true);
    return $1;
end
$$;
grant usage on schema t to public;
select is(string_agg(t.may('batchq_' || r), ' ' order by r),
    'batchq_monitor batchq_operator batchq_producer batchq_worker',
    'F074 every role may open, find and close one')
    from unnest(array['producer', 'worker', 'operator', 'monitor']) r;
select is((select count(*) from batchq.session), 4::bigint, 'and did');
select is(has_function_privilege('public', 'batchq.open_session(bytea, bytea, interval)', 'execute'),
    false, 'F074 nobody else may');

select * from finish();
rollback;
