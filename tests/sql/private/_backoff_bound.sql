begin;
select plan(15);
\ir ../clock.psql

create function t.bound(attempt integer, base interval default '10 s',
    factor double precision default 2, cap interval default '1 h',
    backoff text default 'exponential')
returns numeric language sql as $$ select round(batchq._backoff_bound($1, $5, $2, $3, $4)::numeric,
    6) $$;
select is((select string_agg(trim_scale(t.bound(n))::text, ' ' order by n)
    from generate_series(1, 11) n), '10 20 40 80 160 320 640 1280 2560 3600 3600',
    'B-33 C-1 attempt n waits at most min(cap, base * 2 ^ (n - 1))');
select is((select string_agg(trim_scale(t.bound(n, '1 s'))::text, ' ' order by n)
    from generate_series(1, 4) n), '1 2 4 8', 'A-18 with a base of 1 s: 1, 2, 4, 8');
select is((select string_agg(trim_scale(t.bound(n, factor => 3))::text, ' ' order by n)
    from generate_series(1, 4) n), '10 30 90 270', 'the factor counts');
select is((select string_agg(distinct trim_scale(t.bound(n, backoff => 'fixed'))::text, ' ')
    from generate_series(1, 5000) n), '10', 'A-19 fixed is the base at every attempt');
select is(t.bound(9, '2 h', backoff => 'fixed'), 3600::numeric,
    'a fixed base above the cap is the cap');
select is(t.bound(1, '2 h'), 3600::numeric, 'so is an exponential one');
select is(t.bound(0), 10::numeric, 'F068 attempt 0 is as the first');
select is(t.bound(-5), 10::numeric, 'F068 so is a negative one');
select is((select string_agg(distinct trim_scale(t.bound(n, factor => 1))::text, ' ')
    from generate_series(1, 5000) n), '10', 'F068 a factor of 1 stays at the base');
select is((select max(t.bound(n, '0')) from generate_series(1, 5000) n), 0::numeric,
    'a base of 0 is 0');
select is((select max(t.bound(n, cap => '0')) from generate_series(1, 5000) n), 0::numeric,
    'a cap of 0 is 0');
create temporary table grid as
select b.base, f.factor, c.cap, n.attempt,
    batchq._backoff_bound(n.attempt, 'exponential', b.base, f.factor, c.cap) as bound
from unnest(array['1 microsecond', '1 ms', '1 s', '10 s', '3 h', '365 days']::interval[]) b(base),
    unnest(array[1, 1.0000001, 1.5, 2, 10, 100]) f(factor),
     unnest(array['1 microsecond', '1 s', '1 h', '365 days']::interval[]) c(cap),
     (select generate_series(0, 100) union select generate_series(101, 5000,
     97) union select unnest(array[5000, 32767, 2147483647])) n(attempt);
select is((select count(*) from grid where bound is null or bound <= 0 or bound > 1e10), 0::bigint,
    'F068 attempts 0 to 2^31: always positive, never an overflow');
select is((select count(*) from grid where bound > extract(epoch from cap) * (1 + 1e-9)), 0::bigint,
    'F068 never above the cap');
select is((select count(*) from (select bound,
    lag(bound) over (partition by base, factor, cap order by attempt) as before from grid) g
    where bound < before * (1 - 1e-9)), 0::bigint, 'F068 never falling');
select is((select count(*) from grid where attempt = 2147483647 and factor > 1
    and bound <> extract(epoch from cap)), 0::bigint, 'F068 equal to the cap from some point on');

select * from finish();
rollback;
