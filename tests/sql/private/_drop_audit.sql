begin;
select plan(6);
\ir ../clock.psql

select batchq.pause('q') from generate_series(1, 4) \g /dev/null
select t.pass('1 day') \g /dev/null
select batchq.resume('q') \g /dev/null
select t.pass('2136 h') \g /dev/null
select is(batchq._drop_audit(1000), 0::bigint, 'after 90 days what was done is still told');
select t.pass('1 microsecond') \g /dev/null
select is(batchq._drop_audit(3), 3::bigint, 'then it is forgotten, the oldest first, at most n at once');
select is((select string_agg(a.action, ' ') from batchq.list_audit() a), 'resume pause', 'but no other');
update batchq.upkeep set next_at = '-infinity' \g /dev/null
select is((select m.done from batchq.maintain() m where m.task = 'audit'), 1::bigint,
    'maintain does it');
select is((select string_agg(a.action, ' ') from batchq.list_audit() a), 'resume', 'a day less is kept');
select is(batchq._drop_audit(1000), 0::bigint, 'and nothing is left to do');

select * from finish();
rollback;
