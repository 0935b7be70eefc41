begin;
select plan(17);
\ir ../clock.psql
select setseed(0.33) \g /dev/null

create function t.spec(job jsonb default '{}', queue jsonb default '{}',
    attempt integer default 1) returns interval language sql as $$
    select batchq._backoff_wait($3, jsonb_populate_record(null::batchq.job, $1),
    jsonb_populate_record(null::batchq.queue, $2))
$$;
create temporary table w as select extract(epoch from t.spec('{"backoff_base": "8 s"}')) as w
    from generate_series(1, 2000);
select ok(min(w) >= 0 and max(w) <= 8, 'B-33 full jitter is within [0, base]') from w;
select ok(avg(w) between 3.8 and 4.2, 'B-33 its mean is half of it, within 5 %') from w;
select ok(min(b.n) > 70 and max(b.n) < 135 and count(*) = 20,
    'B-33 it is uniform: of 20 buckets none is far from 100')
    from (select count(*) as n from w group by least(floor(w / 0.4), 19)) b;
select ok(count(distinct w) > 1900, 'B-33 F069 each call draws anew') from w;
select ok(max(x) between interval '9 s' and '10 s' and min(x) < '1 s',
    'C-1 the default is full jitter from 10 s')
    from (select t.spec() as x from generate_series(1, 500)) s;
select ok(max(x) between interval '35 min' and '1 h', 'C-1 up to 1 h')
    from (select t.spec(attempt => 100) as x from generate_series(1, 500)) s;
select ok(max(x) between interval '18 s' and '20 s', 'C-1 by a factor of 2')
    from (select t.spec(attempt => 2) as x from generate_series(1, 500)) s;
select is(t.spec('{"backoff": "fixed"}'), '10 s', 'A-19 C-1 fixed has no jitter unless asked for');
select is(t.spec('{}', '{"backoff": "fixed"}'), '10 s', 'A-19 C-1 nor when it is the queue''s');
select ok(max(x) < '10 s' and count(distinct x) > 1, 'C-1 asked for, it has')
    from (select t.spec('{"backoff": "fixed", "backoff_jitter": "full"}') as x
    from generate_series(1, 20)) s;
select is(t.spec('{"backoff_jitter": "none"}', attempt => 3), '40 s',
    'A-18 exponential without jitter is its bound');
select is(t.spec('{"backoff_base": "3 s"}', '{"backoff": "fixed", "backoff_base": "5 s"}'), '3 s',
    'C-1 the job''s base goes before the queue''s');
select is(t.spec('{"backoff": "fixed"}',
    '{"backoff": "exponential", "backoff_jitter": "none", "backoff_base": "5 s"}', 3), '5 s',
    'C-1 so does its kind');
select is(t.spec('{"backoff_factor": 3}', '{"backoff_factor": 5, "backoff_jitter": "none"}', 2),
    '30 s', 'C-1 so does its factor');
select is(t.spec('{"backoff_cap": "7 s"}', '{"backoff_cap": "9 s", "backoff_jitter": "none"}', 2),
    '7 s', 'C-1 so does its cap');
select is(t.spec('{}', '{"backoff_cap": "9 s", "backoff_jitter": "none"}', 2), '9 s',
    'C-1 the queue''s goes before the default');
select is(batchq._backoff_wait(1, jsonb_populate_record(null::batchq.job,
    '{"backoff_jitter": "none"}'), null), '10 s', 'a queue without settings is no error');

select * from finish();
rollback;
