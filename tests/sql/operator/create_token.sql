begin;
select plan(41);
\ir ../clock.psql

create function t.token(name text, secret text default null) returns bigint language sql as $$
    select batchq.create_token($1, sha256(coalesce($2, $1)::bytea), '{produce}')
$$;

select batchq.create_token('shop', sha256('a'), '{work,produce}', '{mail,"Ünï q"}',
    t.now() + interval '1 h') as a \gset
select is(to_jsonb(k) - 'token_id' - 'created_at' - 'expires_at', jsonb_build_object('name', 'shop',
    'scopes', '["work", "produce"]'::jsonb, 'queues', '["mail", "Ünï q"]'::jsonb, 'revoked_at',
    null), 'a token is what it was given') from batchq.find_token(sha256('a')) k;
select is(k.token_id || ' ' || k.created_at || ' ' || k.expires_at,
    :'a' || ' ' || t.now() || ' ' || t.now() + interval '1 h', 'its id comes back; its times')
    from batchq.find_token(sha256('a')) k;
select batchq.create_token(repeat('ü', 200), sha256('b'), '{produce,work,operate,monitor}') as b \gset
select isnt(:a, :b, 'another one has another id');
select is(k.queues::text || k.expires_at::text, null, 'by default for all queues, and for ever')
    from batchq.find_token(sha256('b')) k;

select is(t.code($$ select t.token('shop') $$), 'JQ001', 'a name is given once');
select matches(t.message($$ select t.token('shop') $$), '''shop''', 'and the message has it');
select t.pass('2 h') \g /dev/null
select is(t.code($$ select t.token('shop') $$), 'JQ001', 'also while its token has expired');
select is(t.code($$ select t.token('Shop') $$), 'ok', 'case counts');
select batchq.revoke_token('shop') \g /dev/null
select is(t.code($$ select t.token('shop', 'a') $$), 'JQ001',
    'a hash is never given twice, not even after its token was revoked');
select is(t.code($$ select t.token('shop', 'c') $$), 'ok', 'a name that is free again is');

select is(t.code(format('select batchq.create_token(%L, sha256(''x''), ''{work}'')', v)), 'JQ001',
    format('name %L is refused', left(v, 5))) from unnest(array['', null, repeat('x', 201)]) v;
select is(t.code(format('select batchq.create_token(''n'', %L, ''{work}'')', v)), 'JQ001',
    format('hash %L is refused', left(v, 9)))
    from unnest(array['', null, '\x' || repeat('00', 31), '\x' || repeat('00', 33)]) v;
select is(t.code(format('select batchq.create_token(''n'', sha256(''x''), %L)', v)), 'JQ001',
    format('scopes %L are refused', v))
    from unnest(array['{}', null, '{admin}', '{work,null}', '{null}', '{Work}', '{work,""}',
        '{{work,produce}}', '[0:0]={work}', '{work,work,work,work,work}']) v;
select is(t.code(format('select batchq.create_token(''n'', sha256(''x''), ''{work}'', %L)', v)),
    'JQ001', format('queues %L are refused', left(v, 9)))
    from unnest(array['{}', '{null}', '{""}', '{{a,b}}', '[0:0]={a}',
        array_fill('a'::text, array[1001])::text, format('{%s}', repeat('x', 256))]) v;
select is(t.code(format('select batchq.create_token(''n'', sha256(''x''), ''{work}'', null, %L)',
    v)), 'JQ001', format('expires_at %L is refused', v))
    from unnest(array['-infinity', '1970-01-01', t.now()::text]) v;
select is(t.code(format('select batchq.create_token(''n'', sha256(''x''), ''{work}'', null, %L)',
    t.now() + interval '1 microsecond')), 'ok', 'any time in the future is taken');

set local role batchq_operator;
select batchq.create_token('mine', sha256('mine'), '{work}') > 0 as made \gset
reset role;
select ok(:'made', 'F074 the role batchq_operator may call it');
select throws_ok(format('set local role %I; select batchq.create_token(''n'', null, null)', r),
    '42501', null, format('F074 %s may not', r))
    from unnest(array['batchq_producer', 'batchq_worker']) r;

select * from finish();
rollback;
