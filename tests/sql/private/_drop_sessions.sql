begin;
select plan(5);
\ir ../clock.psql

select batchq.create_token('t', sha256('t'), '{work}') \g /dev/null
select batchq.open_session(sha256('t'), sha256(i::text::bytea), '1 h') from generate_series(1, 3) i
    \g /dev/null
select batchq.open_session(sha256('t'), sha256('long'), '2 h') \g /dev/null
select t.pass('3599.999999 s') \g /dev/null
select is(batchq._drop_sessions(1000), 0::bigint, 'a session that is good is kept');
select t.pass('1 microsecond') \g /dev/null
select is(batchq._drop_sessions(2), 2::bigint, 'one that is over is forgotten, at most n at once');
update batchq.upkeep set next_at = '-infinity' \g /dev/null
select is((select m.done from batchq.maintain() m where m.task = 'workers'), 1::bigint,
    'maintain does it');
select is((select count(*) from batchq.find_session(sha256('long'))), 1::bigint, 'others are good');
delete from batchq.token;
select is_empty('select * from batchq.session', 'a token that is forgotten takes its sessions along');

select * from finish();
rollback;
