begin;
select plan(4);
\ir ../clock.psql

select ok(version ~ '^\d+\.\d+\.\d+$', 'version has three numbers') from batchq.version();
select is(v.migration, (select max(m.migration) from batchq.migration m),
    'migration is the newest that was applied') from batchq.version() v;
select ok(v.installed_at <= clock_timestamp(), 'installed_at is the time of the first install')
    from batchq.version() v;
select is((select count(*) from batchq.version()), 1::bigint, 'it is one row');

select * from finish();
rollback;
