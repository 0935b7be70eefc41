begin;
select plan(11);
\ir ../clock.psql

select batchq.create_token(n, sha256(n::bytea), '{work}') from unnest(array['a', 'b']) n \g /dev/null
select is(batchq.revoke_token('a'), true, 'a token is revoked');
select is_empty($$ select * from batchq.find_token(sha256('a')) $$, 'and good for nothing');
select is(k.revoked_at, t.now(), 'since now') from batchq.list_tokens() k where k.name = 'a';
select is((select count(*) from batchq.find_token(sha256('b'))), 1::bigint, 'others still are');
select t.pass('1 h') \g /dev/null
select is(batchq.revoke_token('a'), false, 'asked twice is no error');
select is(k.revoked_at, t.now() - interval '1 h', 'nor does it change anything')
    from batchq.list_tokens() k where k.name = 'a';
select is(batchq.revoke_token(v), false, format('nobody is called %L', v))
    from unnest(array['B', null]) v;

set local role batchq_operator;
select batchq.revoke_token('b') as revoked \gset
reset role;
select ok(:'revoked', 'F074 the role batchq_operator may call it');
select throws_ok(format('set local role %I; select batchq.revoke_token(null)', r), '42501', null,
    format('F074 %s may not', r)) from unnest(array['batchq_producer', 'batchq_monitor']) r;

select * from finish();
rollback;
