begin;
select plan(49);
\ir ../clock.psql

select batchq.enqueue('k', queue => 'c', dedupe_key => 'K') as a \gset
select l.lease_id as l from batchq.lease('c', worker => 'w') l \gset
select t.pass('2 s') \g /dev/null
select is(batchq.complete(:a, :l, '{"n": 5}'), 'completed', 'complete says completed');
select is((t.of(:a)).status || ' ' || (t.of(:a)).state, 'completed completed',
    'A-21 A-51 the job is completed');
select is((t.of(:a)).result, '{"n": 5}', 'B-16 its result is kept');
select is((t.of(:a)).attempts, 1, 'A-52 so are its attempts');
select is((t.of(:a)).finished_at - (t.of(:a)).started_at, '2 s',
    'A-16 and when it started and finished');
select is((t.of(:a)).updated_at, t.now(), 'A-58 updated_at moved');
select is((t.of(:a)).locked_by, null, 'B-27 locked_by is null again');
select is((t.of(:a)).locked_until, null, 'B-28 locked_until too');
select is((select count(*) from jobs where id = :a), 1::bigint, 'it is one row of the view');
select is(t.take('c'), null, 'a completed job is not handed out again');
select isnt(batchq.enqueue('k', queue => 'c', dedupe_key => 'K'), :a::bigint,
    'A-42 F025 its dedupe key is free');
select t.pass('1 s') \g /dev/null
select is(batchq.complete(:a, :l, '{"n": 6}'), 'completed', 'F009 asked twice is no error');
select is((select o.result::text || (t.now() - o.finished_at) from batchq.outcome o
    where o.job_id = :a), '{"n": 5}00:00:01',
          'F009 and changes nothing: one outcome, the first');

select is(t.code(format('select batchq.complete(%s, %s, %L)', batchq.enqueue('k', queue => 'v'), 0,
    v)), 'JQ004', format('F009 a lease number that never was: %s', v))
from unnest(array['1']) v;
select batchq.enqueue('k', queue => 'r') as a, batchq.enqueue('k', queue => 'r') as b \gset
select max(l.lease_id) filter (where l.job_id = :a) as la,
    max(l.lease_id) filter (where l.job_id = :b) as lb from batchq.lease('r', 2) l \gset
select throws_ok(format('select batchq.complete(%L, %L)', j, l), 'JQ004', null, d)
from (values (:a::bigint, :lb::bigint, 'F009 another job''s lease is refused'),
    (:a, null, 'a lease of null is refused'),
             (null, :la, 'a job of null is refused'), (null, null, 'null and null are refused'),
             (-1, :la, 'an unknown job is refused'),
             (9223372036854775807, 9223372036854775807, 'the largest numbers are refused'),
             (:a, -1, 'a negative lease is refused')) x(j, l, d);
select is(t.job(:a) || ' ' || t.job(:b), 'leased:1 leased:1', 'F009 none of them touched a job');
select is(batchq.complete(:a, :la), 'completed', 'the right one is taken');
select is((t.of(:a)).result, null, 'no result is null');
select batchq.enqueue('k', queue => 'j') from generate_series(1, 5) \g /dev/null
select is((t.of(l.job_id)).result, null, 'running jobs have no result') from batchq.lease('j', 1) l;
select is(batchq.complete(l.job_id, l.lease_id, 'null') || coalesce((t.of(l.job_id)).result::text,
    ' none'), 'completednull', 'JSON null is a result') from batchq.lease('j', 1) l;

-- size
select throws_ok(format('select batchq.complete(%s, %s, to_jsonb(repeat(''x'', 1048577)))', :b,
    :lb), 'JQ001', null, 'D-4 a result over 1 MiB is refused');
select is(t.job(:b), 'leased:1', 'and the job is still leased');
select lives_ok(format('select batchq.complete(%s, %s, to_jsonb(repeat(''x'', 1048000)))', :b, :lb),
    'one just under it is taken');

-- after the end by another way
select t.job_in('failed', 'f') as a \gset
select throws_ok(format('select batchq.complete(%s, %s)', :a, e.lease_id), 'JQ004', null,
    'F009 complete after fail is refused') from batchq.error e where e.job_id = :a;
select is(t.job(:a), 'failed:1', 'F009 and the job stays failed');
select batchq.enqueue('k', queue => 'rel') as a \gset
select l.lease_id as l from batchq.lease('rel') l \gset
select batchq.release(:a, :l) \g /dev/null
select throws_ok(format('select batchq.complete(%s, %s)', :a, :l), 'JQ004', null,
    'complete after release is refused');
select l.lease_id as l2 from batchq.lease('rel') l \gset
select throws_ok(format('select batchq.complete(%s, %s)', :a, :l), 'JQ004', null,
    'F003 the old lease of a job that was leased again is refused');
select is(batchq.complete(:a, :l2), 'completed', 'F003 the new one is taken');
select throws_ok(format('select batchq.complete(%s, %s)', :a, :l), 'JQ004', null,
    'and the old one is refused still');

-- expired, reaped (F001, F003)
select batchq.enqueue('k', queue => 'exp') as a \gset
select l.lease_id as l from batchq.lease('exp', lease_for => '1 s') l \gset
select t.pass('2 s') \g /dev/null
select is(batchq.complete(:a, :l), 'completed',
    'F003 after lease_until the holder may complete until it is taken back');
select is(batchq.reap(), 0, 'F001 and the reaper finds nothing');
select batchq.enqueue('k', queue => 'exp') as a \gset
select l.lease_id as l from batchq.lease('exp', lease_for => '1 s') l \gset
select t.pass('2 s') \g /dev/null
select batchq.reap() \g /dev/null
select throws_ok(format('select batchq.complete(%s, %s)', :a, :l), 'JQ004', null,
    'F001 F003 once it is reaped the lease is lost');
select is(t.job(:a), 'scheduled:1', 'F001 the reaper''s decision stands');
select is((select count(*) from batchq.outcome o where o.job_id = :a), 0::bigint,
    'F001 and there is no outcome');

-- the key's window outlives the job
select batchq.enqueue('k', queue => 'win', dedupe_key => 'K', dedupe_for => '1 h') as a \gset
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('win') l \g /dev/null
select is(batchq.enqueue('k', queue => 'win', dedupe_key => 'K'), :a::bigint,
    'C-6 inside dedupe_for a completed job holds its key');

-- what a job held is given back
select batchq.set_queue('lim', max_running => 2, group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'lim', group_key => 'g') as a,
    batchq.enqueue('k', queue => 'lim', group_key => 'g') as b,
    batchq.enqueue('k', queue => 'lim') as c, batchq.enqueue('k', queue => 'lim') as d \gset
select is(t.take('lim', 9), :c || ' ' || :d, 'a queue at its cap');
select batchq.complete(:c, t.lease_of(:c)) \g /dev/null
select is(t.free('lim'), 1::bigint, 'F019 a permit comes back with completion');
select is(t.take('lim', 9), :'a', 'F019 and the next job starts');
select batchq.complete(:d, t.lease_of(:d)) \g /dev/null
select is(t.take('lim', 9), null, 'a group at its limit');
select batchq.complete(:a, t.lease_of(:a)) \g /dev/null
select is(t.take('lim', 9), :'b', 'F019 its next job starts when the one before it is completed');
select batchq.complete(:a, l.lease_id) from batchq.outcome l where l.job_id = :a \g /dev/null
select is(t.free('lim') || ' ' || t.seats('lim'), '1 g:1', 'completed twice, it is given back once');
select t.code(format('select batchq.complete(%s, %s)', :b, t.lease_of(:b) + 1)) \g /dev/null
select is(t.free('lim') || ' ' || t.seats('lim'), '1 g:1', 'and by its holder only');
select batchq.complete(:b, t.lease_of(:b)) \g /dev/null
select is(t.free('lim') || ' ' || t.seats('lim'), '2 ', 'at the end all is free');

select * from finish();
rollback;
