begin;
select plan(81);
\ir ../clock.psql

-- A-17 … A-23: two failures, then success
select batchq.enqueue('k', queue => 'f', backoff => 'exponential', backoff_base => '1 s',
                      backoff_jitter => 'none', max_attempts => 4) as a \gset
select t.pass('1 s') \g /dev/null
select is(batchq.fail(l.job_id, l.lease_id, 'e1'), 'scheduled',
    'with attempts left the job is scheduled')
from batchq.lease('f', worker => 'w1') l;
select is((t.of(:a)).status || ' ' || (t.of(:a)).attempts, 'pending 1',
    'A-17 A-21 it is pending, with one attempt');
select is((t.of(:a)).available_at - t.now(), '1 s',
    'A-18 available_at shows the first wait: the base');
select is((t.of(:a)).run_at, (t.of(:a)).available_at, 'C-5 run_at shows the same');
select is((t.of(:a)).last_error, 'e1', 'A-23 last_error is the message');
select is((t.of(:a)).updated_at, t.now(), 'A-58 updated_at moved');
select ok(num_nonnulls((t.of(:a)).locked_by, (t.of(:a)).locked_until) = 0,
    'B-27 B-28 nobody holds it');
select is(t.take('f'), null, 'A-18 it is not handed out during its wait');
select t.pass('999 ms') \g /dev/null
select is(t.take('f'), null, 'A-18 nor just before its end');
select t.pass('1 ms') \g /dev/null
select is(l.attempt, 2, 'A-17 then it is, as the second attempt')
    from batchq.lease('f', worker => 'w2') l;
select batchq.fail(:a, t.lease_of(:a), 'e2') \g /dev/null
select is(t.wait(:a), '2 s', 'A-18 the second wait is twice the base');
select is((t.of(:a)).last_error, 'e2', 'A-23 last_error is the newest message');
select t.pass('2 s') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e3') from batchq.lease('f') l \g /dev/null
select is(t.wait(:a), '4 s', 'A-18 the third four times');
select t.pass('4 s') \g /dev/null
select is(batchq.complete(l.job_id, l.lease_id), 'completed', 'A-17 and a success completes it')
    from batchq.lease('f') l;
select is(t.job(:a), 'completed:4', 'A-17 with its attempts');
select is((select string_agg(e.attempt || e.error || coalesce(e.worker, ''), ' '
    order by e.lease_id) from batchq.error e where e.job_id = :a),
          '1e1w1 2e2w2 3e3', 'A-16 every attempt''s error and worker is kept');

-- fixed, of the job and of the queue (A-19, C-1)
select batchq.enqueue('k', queue => 'fix', backoff => 'fixed', backoff_base => '10 s') as a \gset
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('fix') l \g /dev/null
select is(t.wait(:a), '10 s', 'A-19 a fixed backoff of 10 s waits 10 s');
select t.pass('10 s') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('fix') l \g /dev/null
select is(t.wait(:a), '10 s', 'A-19 each time');
select batchq.set_queue('fixq', backoff => 'fixed', backoff_base => '10 s') \g /dev/null
select batchq.enqueue('k', queue => 'fixq') as a,
    batchq.enqueue('k', queue => 'fixq', backoff_base => '3 s') as b \gset
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('fixq', 2) l \g /dev/null
select is(t.wait(:a), '10 s', 'A-19 C-1 so does one that is the queue''s');
select is(t.wait(:b), '3 s', 'C-1 what the job says goes before the queue');
select batchq.enqueue('k', queue => 'def') from generate_series(1, 200) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('def', 200) l \g /dev/null
select ok(min(t.wait(j.id)) >= '0' and max(t.wait(j.id)) between '8 s' and '10 s'
    and count(distinct t.wait(j.id)) > 150,
          'C-1 B-33 the default is full jitter up to 10 s, drawn for each job') from jobs j
          where j.queue = 'def';
select batchq.enqueue('k', queue => 'first', delay => '10 s', backoff_base => '1 s',
    backoff_jitter => 'none') as a \gset
select t.pass('10 s') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('first') l \g /dev/null
select is(t.wait(:a), '1 s', 'F070 a retry does not inherit the first delay');

-- the last attempt, permanent (A-20, A-22, B-36)
select batchq.enqueue('k', queue => 'd', backoff => 'fixed', backoff_base => '0',
    dedupe_key => 'K') as a \gset
select is(string_agg(batchq.fail(l.job_id, l.lease_id, 'e' || i) || l.attempt, ' '), 'scheduled1',
    'first failure')
from (values (1)) x(i), batchq.lease('d') l;
select is(string_agg(batchq.fail(l.job_id, l.lease_id, 'e2') || l.attempt, ' '), 'scheduled2',
    'F067 a base of 0 is ready at once') from batchq.lease('d') l;
select is(batchq.enqueue('k', queue => 'd', dedupe_key => 'K'), :a::bigint,
    'C-6 a job that waits for its retry holds its key');
select is(string_agg(batchq.fail(l.job_id, l.lease_id, 'e3') || l.attempt, ' '), 'failed3',
    'A-20 A-22 a job that always fails runs three times') from batchq.lease('d') l;
select is((t.of(:a)).status || ' ' || (t.of(:a)).state || ' ' || (t.of(:a)).attempts || ' '
    || (t.of(:a)).last_error, 'failed failed 3 e3', 'A-22 B-34 it is failed, a dead letter');
select is((t.of(:a)).finished_at, t.now(), 'with the time of its end');
select t.pass('4 days') \g /dev/null
select is(t.take('d'), null, 'A-22 and never handed out again');
select isnt(batchq.enqueue('k', queue => 'd', dedupe_key => 'K'), :a::bigint,
    'F025 its key is free');
select batchq.enqueue('k', queue => 'o', max_attempts => 1) as a \gset
select is(batchq.fail(l.job_id, l.lease_id, 'e'), 'failed',
    'B-36 C-19 with max_attempts 1 the first failure is final') from batchq.lease('o') l;
select is(t.job(:a), 'failed:1', 'B-36 a dead letter at once');
select batchq.enqueue('k', queue => 'o', max_attempts => 9) as a \gset
select is(batchq.fail(l.job_id, l.lease_id, 'e', permanent => true), 'failed',
    'a permanent failure is final') from batchq.lease('o') l;
select is(t.job(:a), 'failed:1', 'whatever attempts are left');
select batchq.enqueue('k', queue => 'o') as a \gset
select is(batchq.fail(l.job_id, l.lease_id, 'e', permanent => null), 'scheduled',
    'permanent null is not permanent') from batchq.lease('o') l;

-- retry_in
select batchq.enqueue('k', queue => 'ri', max_attempts => 32767, backoff => 'fixed',
    backoff_base => '7 s') as a \gset
select batchq.fail(l.job_id, l.lease_id, 'e', retry_in => '90 s')
    from batchq.lease('ri') l \g /dev/null
select is(t.wait(:a), '90 s', 'retry_in goes before the backoff');
select t.pass('90 s') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e', retry_in => '0')
    from batchq.lease('ri') l \g /dev/null
select is(t.wait(:a), '0', 'retry_in 0 means now');
select batchq.fail(l.job_id, l.lease_id, 'e', retry_in => '-5 s')
    from batchq.lease('ri') l \g /dev/null
select is(t.wait(:a), '0', 'F067 a negative one too');
select batchq.fail(l.job_id, l.lease_id, 'e', retry_in => null)
    from batchq.lease('ri') l \g /dev/null
select is(t.wait(:a), '7 s', 'one of null is the backoff');
select t.pass('7 s') \g /dev/null
select l.lease_id as l from batchq.lease('ri') l \gset
select throws_ok(format('select batchq.fail(%s, %s, ''e'', retry_in => %L)', :a, :l, v), 'JQ001',
    null, format('F067 retry_in of %s is refused', v))
from unnest(array['11 years', '1000000000000 s', '-11 years']) v;
select is(t.job(:a), 'leased:5', 'and the job is still leased');
select batchq.fail(:a, :l, 'e', retry_in => '10 years') \g /dev/null
select is((t.of(:a)).run_at, t.now() + make_interval(secs => extract(epoch from interval '10 years')::integer), 'one of 10 years is taken');

-- texts of errors (D-5)
select batchq.enqueue('k', queue => 'txt') from generate_series(1, 6) \g /dev/null
create temporary table txt as
select l.*, (array[null, '', repeat('x', 2048), repeat('ü', 5000) || 'end', E'a\nb\t%s $1 \\',
    repeat('𝄞', 2048)])[row_number() over (order by job_id)] as error
from batchq.lease('txt', 6) l;
select batchq.fail(job_id, lease_id, error) from txt \g /dev/null
select is((t.of(job_id)).last_error, 'no error text was given',
    format('an error of %s is said to be none', coalesce(quote_literal(error), 'null'))) from txt
    where coalesce(error, '') = '';
select is((t.of(job_id)).last_error, error,
    'D-5 an error of ' || length(error) || ' characters is kept whole') from txt
    where error <> '' and length(error) < 2049;
select ok((t.of(job_id)).last_error like 'üüü% 3019 characters cut %üend'
    and octet_length((t.of(job_id)).last_error) <= 8192,
    'D-5 a longer one is kept by its head and tail') from txt where length(error) > 2048;

-- asked twice, foreign, unknown
select batchq.enqueue('k', queue => 't', max_attempts => 2, backoff => 'fixed',
    backoff_base => '0') as a, batchq.enqueue('k', queue => 'u') as b \gset
select l.lease_id as l1 from batchq.lease('t') l \gset
select l.lease_id as lb from batchq.lease('u') l \gset
select batchq.fail(:a, :l1, 'e1') \g /dev/null
select is(batchq.fail(:a, :l1, 'again'), 'failed', 'F009 asked twice is no error');
select is((select count(*) from batchq.error where job_id = :a), 1::bigint,
    'F009 and no second row');
select is(t.job(:a), 'scheduled:1', 'F009 nor a second retry');
select l.lease_id as l2 from batchq.lease('t') l \gset
select is(batchq.fail(:a, :l1, 'again'), 'failed',
    'F009 asked twice while the next attempt runs is no error');
select is(t.job(:a), 'leased:2', 'F009 and leaves that attempt alone');
select batchq.fail(:a, :l2, 'e2') \g /dev/null
select is(batchq.fail(:a, :l2, 'again'), 'failed',
    'F009 asked twice for the last attempt is no error');
select is((select count(*) from batchq.dead where job_id = :a), 1::bigint,
    'F009 and there is one dead letter');
select throws_ok(format('select batchq.fail(%L, %L, ''e'')', j, l), 'JQ004', null, d)
from (values (:b::bigint, :l1::bigint, 'F009 another job''s lease is refused'),
    (:b, null, 'a lease of null is refused'),
             (null, :lb, 'a job of null is refused'), (-1, 1, 'an unknown job is refused')) x(j, l,
             d);
select batchq.complete(:b, :lb) \g /dev/null
select throws_ok(format('select batchq.fail(%s, %s, ''e'')', :b, :lb), 'JQ004', null,
    'F009 fail after complete is refused');
select is(t.job(:b), 'completed:1', 'F009 and the job stays completed');

-- expired and taken back
select batchq.enqueue('k', queue => 'x') as a, batchq.enqueue('k', queue => 'x') as b,
    batchq.enqueue('k', queue => 'x') as c \gset
select max(l.lease_id) filter (where job_id = :a) as la,
    max(l.lease_id) filter (where job_id = :b) as lb,
    max(l.lease_id) filter (where job_id = :c) as lc
from batchq.lease('x', 3, lease_for => '1 s') l \gset
select t.pass('2 s') \g /dev/null
select is(batchq.fail(:a, :la, 'e'), 'scheduled',
    'F003 after lease_until the holder may fail it until it is taken back');
select batchq.cancel(:c) \g /dev/null
select batchq.reap() \g /dev/null
select throws_ok(format('select batchq.fail(%s, %s, ''late'')', :b, :lb), 'JQ004', null,
    'F003 once it is reaped the lease is lost');
select throws_ok(format('select batchq.fail(%s, %s, ''late'')', :c, :lc), 'JQ004', null,
    'F003 also that of a job that was cancelled by it');
select is((select count(*) from batchq.error where job_id = :b), 1::bigint,
    'F003 and only the reaper''s error is kept');

-- what a job held is given back
select batchq.set_queue('lim', max_running => 1) \g /dev/null
select batchq.enqueue('k', queue => 'lim') as a, batchq.enqueue('k', queue => 'lim') as b \gset
select t.take('lim') \g /dev/null
select batchq.fail(:a, t.lease_of(:a), 'e') \g /dev/null
select is(t.take('lim'), :'b', 'F019 a permit comes back while the job waits for its retry');
select batchq.fail(:b, t.lease_of(:b), 'e', permanent => true) \g /dev/null
select is(t.free('lim'), 1::bigint, 'F019 also when it will not be tried again');

-- a retry keeps its place in its group where one runs at a time
select batchq.set_queue('g1', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g') as a,
    batchq.enqueue('k', queue => 'g1', group_key => 'g') as b \gset
select t.take('g1') \g /dev/null
select batchq.fail(:a, t.lease_of(:a), 'e', retry_in => '5 s') \g /dev/null
select is(t.take('g1'), null, 'a job that waits for its retry is not overtaken');
select t.pass('5 s') \g /dev/null
select is(t.take('g1'), :'a', 'it is the next');
select batchq.fail(:a, t.lease_of(:a), 'e', permanent => true) \g /dev/null
select is(t.take('g1'), :'b', 'F010 a dead letter lets the next one go');
select batchq.set_queue('g1', group_retry => 'yield') \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g') as c \gset
select batchq.fail(:b, t.lease_of(:b), 'e', retry_in => '5 s') \g /dev/null
select is(t.take('g1'), :'c', 'group_retry yield: the next one goes first');
select t.pass('5 s') \g /dev/null
select is(t.take('g1'), null, 'the retry waits for it');
select batchq.complete(:c, t.lease_of(:c)) \g /dev/null
select is(t.take('g1'), :'b', 'and takes its turn');

-- elsewhere it gives its place away, unless the queue says so
select batchq.set_queue('g2', group_limit => 2) \g /dev/null
select batchq.enqueue('k', queue => 'g2', group_key => 'g') as a,
    batchq.enqueue('k', queue => 'g2', group_key => 'g') as b,
    batchq.enqueue('k', queue => 'g2', group_key => 'g') as c,
    batchq.enqueue('k', queue => 'g2', group_key => 'g') as d \gset
select t.take('g2', 9) \g /dev/null
select batchq.fail(:a, t.lease_of(:a), 'e', retry_in => '5 s') \g /dev/null
select is(t.take('g2', 9), :'c', 'group_limit 2: a retry yields');
select batchq.set_queue('g2', group_retry => 'hold') \g /dev/null
select batchq.fail(:b, t.lease_of(:b), 'e', retry_in => '5 s') \g /dev/null
select is(t.take('g2', 9), null, 'group_retry hold: it keeps its seat');
select is(t.seats('g2'), 'g:2', 'which is counted');
select t.pass('5 s') \g /dev/null
select is(t.take('g2', 9), :'b', 'and is used');
select is(t.job(:a), 'blocked:1', 'the other one waits for its turn');
select batchq.cancel(:c), batchq.fail(:c, t.lease_of(:c), 'stopped') \g /dev/null
select is(t.take('g2', 1), :'d', 'F080 one that was asked to stop gives its seat back');

select * from finish();
rollback;
