begin;
select plan(7);

create function pg_temp.of(variadic seconds double precision[]) returns bigint[] language sql as $$
    select array(select (select count(*) from unnest($1) s where batchq._bucket(s) <= g)
                 from generate_series(1, 28) g)
$$;
select is(batchq._quantile('{}', 0, 0.5), null, 'of nothing there is none');
select is(batchq._quantile(pg_temp.of(0.003), 1, 0.5), '4 ms'::interval, 'one time: the end of its bucket');
select is(batchq._quantile(pg_temp.of(0.0001, 0.0002), 2, 0.5), '0.5 ms'::interval, 'below 1 ms by its place');
select is(batchq._quantile(pg_temp.of(0.1, 0.1, 0.1, 90), 4, 0.75), '128 ms'::interval, 'the last of the common ones');
select is(batchq._quantile(pg_temp.of(0.1, 0.1, 0.1, 90), 4, 0.99), '131.072 s'::interval, 'and the rare one');
select is(batchq._quantile(pg_temp.of(1e6, 1), 2, 0.99), '134217.728 s'::interval, '37 hours stand for all that is longer');
select is(batchq._quantile(pg_temp.of(1e6, 1), 2, 0.5), '1.024 s'::interval, 'which does not change the others');

select * from finish();
rollback;
