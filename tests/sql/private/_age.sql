begin;
select plan(9);
\ir ../clock.psql

select batchq.set_queue('a', age_every => '10 s') \g /dev/null
select batchq.enqueue('low', queue => 'a', priority => -2) from generate_series(1, 3) \g /dev/null
select batchq.enqueue('mid', queue => 'a') \g /dev/null
select is(batchq._age(1000), 0::bigint, 'nothing waited yet');
select t.pass('19 s') \g /dev/null
select is(batchq._age(1000), 0::bigint, 'two steps up take twice as long');
select t.pass('1 s') \g /dev/null
select batchq.enqueue('new', queue => 'a', priority => -2) \g /dev/null
select is(batchq._age(2), 2::bigint, 'then the oldest join the highest lane, a bounded step each');
select is(batchq._age(1000), 1::bigint, 'and the rest in the next');
select is((select string_agg(r.priority || ' ' || (r.ready_at = t.now() - interval '20 s')::text, ', '
                             order by r.pos)
           from batchq.ready r where r.queue = 'a' and r.pos <> r.job_id),
    '0 true, 0 true, 0 true', 'since when they wait is kept');
select is((select string_agg(l.kind || ' ' || l.priority, ', ') from batchq.lease('a', 10) l),
    'mid 0, low 0, low 0, low 0, new -2', 'they come after those of that lane, in their order');
select batchq.enqueue('alone', queue => 'a', priority => -5) \g /dev/null
select t.pass('1 h') \g /dev/null
select is(batchq._age(1000), 0::bigint, 'a job that nobody is preferred to stays');
select batchq.enqueue('low', queue => 'b', priority => -1) \g /dev/null
select batchq.enqueue('high', queue => 'b') \g /dev/null
select t.pass('1 h') \g /dev/null
select is(batchq._age(1000), 0::bigint, 'queues that do not want it are left alone');
select batchq.enqueue('top', queue => 'a', priority => 7) \g /dev/null
select is((select m.task || ' ' || m.done from batchq.maintain() m where m.task = 'age'), 'age 1',
    'maintain does it');
select * from finish();
rollback;
