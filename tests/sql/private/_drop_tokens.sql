begin;
select plan(6);
\ir ../clock.psql

select batchq.create_token(i::text, sha256(i::text::bytea), '{work}', null, t.now() + '1 s'::interval)
    from generate_series(1, 4) i \g /dev/null
select batchq.revoke_token(i::text) from generate_series(1, 3) i \g /dev/null
select t.pass('720 h') \g /dev/null
select is(batchq._drop_tokens(1000), 0::bigint, '30 days after it was revoked a token is there');
select t.pass('1 microsecond') \g /dev/null
select is(batchq._drop_tokens(2), 2::bigint, 'then it is forgotten, at most n at once');
update batchq.upkeep set next_at = '-infinity' \g /dev/null
select is((select m.done from batchq.maintain() m where m.task = 'workers'), 1::bigint,
    'maintain does it');
select is((select string_agg(name, ' ') from batchq.token), '4', 'one that has expired only stays');
select is(batchq.has_tokens(), true, 'so that its end opens nothing');
select is(batchq._drop_tokens(1000), 0::bigint, 'and nothing is left to do');

select * from finish();
rollback;
