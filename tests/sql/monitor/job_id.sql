begin;
select plan(33);
\ir ../clock.psql

select is(batchq.job_id(v), x, format('%s is taken', v))
from (values ('0', 0::bigint), ('1', 1), ('007', 7),
    ('4611686018427387903', 4611686018427387903)) x(v, x);
select is(batchq.job_id(batchq.job_uuid(42)::text), 42::bigint, 'B-21 a UUID is taken');
select is(batchq.job_id(upper(batchq.job_uuid(42)::text)), 42::bigint, 'B-21 also in capitals');
select throws_ok(format('select batchq.job_id(%L)', v), 'JQ001', null,
    format('B-16 %L is refused', left(v, 40)))
from unnest(array[null, '', ' ', '-1', '+1', '1.0', '1e3', ' 1', '1 ', E'1\n', 'abc', '0x10',
    '4611686018427387904', '9999999999999999999', '99999999999999999999', repeat('9', 1000), '١',
                  '123e4567-e89b-12d3-a456-426614174000', '00000000-0000-0000-0000-000000000000',
                  replace(batchq.job_uuid(42)::text, '-', ''), '{' || batchq.job_uuid(42) || '}',
                  batchq.job_uuid(42) || ' ', 'NaN', 'Infinity', 'null']) v;
select batchq.job_uuid(42) as mine \gset
update batchq.installation set prefix = prefix # 4096;
select throws_ok(format('select batchq.job_id(%L)', :'mine'), 'JQ003', null,
    'a UUID of another installation is not found');
select is(batchq.job_id('999999'), 999999::bigint, 'the job need not exist');

select * from finish();
rollback;
