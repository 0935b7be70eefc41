begin;
select plan(6);
\ir ../clock.psql

select batchq.create_token('t', sha256('t'), '{work}') \g /dev/null
select batchq.open_session(sha256('t'), sha256(n::bytea)) from unnest(array['a', 'b']) n \g /dev/null
select is(batchq.close_session(sha256('a'))::text, '', 'a session is closed');
select is_empty($$ select * from batchq.find_session(sha256('a')) $$, 'and good for nothing');
select is((select count(*) from batchq.find_session(sha256('b'))), 1::bigint, 'others still are');
select lives_ok($$ select batchq.close_session(sha256('a')) $$, 'asked twice is no error');
select lives_ok($$ select batchq.close_session(null) $$, 'nor is nothing at all');
select is((select count(*) from batchq.session), 1::bigint, 'F074 which closes nothing');

select * from finish();
rollback;
