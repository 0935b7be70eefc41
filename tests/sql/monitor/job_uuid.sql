begin;
select plan(14);
\ir ../clock.psql

create temporary table ids as
select id from unnest(array[0, 1, 2, 4095, 4096, 65535, 2147483647, 2147483648, 4294967295,
    4294967296, 1099511627775, 999999999999999999, 1000000000000000000, 4611686018427387902,
    4611686018427387903]) id
union select (random() * 4611686018427387000)::bigint from generate_series(1, 1000) union select i
    from generate_series(1, 1000) i;
select is((select count(*) from ids where batchq.job_id(batchq.job_uuid(id)::text) <> id),
    0::bigint, 'B-21 back and forth is the identity over the whole range');
select is((select count(*) from ids where batchq.job_id(id::text) <> id), 0::bigint,
    'B-21 the number is taken as well');
select is((select count(distinct batchq.job_uuid(id)) from ids), (select count(*) from ids),
    'B-21 C-2 each id has its own');
select ok(bool_and(batchq.job_uuid(id)::text ~
    '^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'),
    'B-21 C-2 canonical text, version 8, its variant') from ids;
select is(batchq.job_uuid(7), batchq.job_uuid(7), 'it is a function of the id');
select batchq.job_uuid(7) as mine \gset
update batchq.installation set prefix = prefix # 1;
select isnt(batchq.job_uuid(7), :'mine'::uuid, 'C-2 and of the installation');
update batchq.installation set prefix = x.prefix
    from (values (0::bigint), (1152921504606846975)) x(prefix) where x.prefix = 0;
select is(batchq.job_uuid(1), '00000000-0000-8000-8000-000000000001',
    'a prefix of zeros keeps its zeros');
update batchq.installation set prefix = 1152921504606846975;
select is(batchq.job_uuid(4611686018427387903), 'ffffffff-ffff-8fff-bfff-ffffffffffff',
    'one of ones keeps its ones');
select is(batchq.job_uuid(null), null, 'null for null');
select throws_ok(format('select batchq.job_uuid(%L)', v), 'JQ001', null, format('%s is refused', v))
    from unnest(array['-1', '4611686018427387904', '9223372036854775807',
    '-9223372036854775808']) v;
select is_empty($$ select 1 from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = 'batchq'::regnamespace and c.relkind in ('r', 'p') and a.atttypid
    = 'uuid'::regtype and c.relname <> 'worker' $$, 'C-2 no table of jobs has a column for it');

select * from finish();
rollback;
