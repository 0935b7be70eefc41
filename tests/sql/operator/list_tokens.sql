begin;
select plan(7);
\ir ../clock.psql

create function t.names() returns text language sql as $$
    select string_agg(k.name || case when k.revoked_at is null then '' else '!' end, ' '
                      order by k.place)
    from (select l.*, row_number() over () as place from batchq.list_tokens() l) k
$$;
select is_empty('select * from batchq.list_tokens()', 'at first there is none');
select batchq.create_token(n, sha256(n::bytea), '{work}', expires_at => t.now() + interval '1 s')
    from unnest(array['c', 'B', 'a', 'd']) n \g /dev/null
select is(t.names(), 'B a c d', 'tokens come by name');
select batchq.revoke_token('a') \g /dev/null
select t.pass('1 h') \g /dev/null
select batchq.revoke_token('c') \g /dev/null
select batchq.create_token('a', sha256('new'), '{work}') \g /dev/null
select is(t.names(), 'B a d c! a!', 'also expired ones; then those revoked last');
select hasnt_column('batchq', 'token_info', 'hash', 'no hash is shown');

set local role batchq_operator;
select count(*) as one from batchq.list_tokens() \gset
set local role batchq_monitor;
select count(*) as two from batchq.list_tokens() \gset
reset role;
select is(:one + :two, 10, 'F074 the roles batchq_operator and batchq_monitor may call it');
select throws_ok(format('set local role %I; select batchq.list_tokens()', r), '42501', null,
    format('F074 %s may not', r)) from unnest(array['batchq_producer', 'batchq_worker']) r;

select * from finish();
rollback;
