begin;
select plan(6);
\ir ../clock.psql

select is(batchq.has_tokens(), false, 'at first there is none');
select batchq.create_token('a', sha256('a'), '{work}', null, t.now() + interval '1 h') \g /dev/null
select is(batchq.has_tokens(), true, 'then there is one');
select t.pass('1 day') \g /dev/null
select is(batchq.has_tokens(), true, 'one that expires opens the API to nobody');
select batchq.revoke_token('a') \g /dev/null
select is(batchq.has_tokens(), false, 'one that is revoked is gone');

set local role batchq_monitor;
select batchq.has_tokens() as one \gset
set local role batchq_producer;
select batchq.has_tokens() as two \gset
reset role;
select ok(not :'one', 'F074 the role batchq_monitor may call it');
select ok(not :'two', 'and every other role of batchq');

select * from finish();
rollback;
