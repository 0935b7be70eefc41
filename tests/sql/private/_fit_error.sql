begin;
select plan(9);
\ir ../clock.psql

select is(batchq._fit_error(null), 'no error text was given', 'null is said');
select is(batchq._fit_error(''), 'no error text was given', 'so is nothing');
select is(batchq._fit_error(' '), ' ', 'a blank is a text');
select is(batchq._fit_error(repeat('x', 2048)), repeat('x', 2048), 'D-5 2,048 characters are kept');
select is(batchq._fit_error(repeat('a', 1024) || 'X' || repeat('b', 1024)),
    repeat('a', 1024) || ' … 65 characters cut … ' || repeat('b', 960),
    'D-5 of more, head and tail, with what was cut');
select ok(octet_length(batchq._fit_error(repeat('𝄞', n))) <= 8192,
    format('D-5 %s of the widest characters are at most 8 KiB', n))
    from unnest(array[2048, 2049, 100000]) n;
select ok(char_length(batchq._fit_error(repeat('x', 5000000))) <= 2048, 'F062 5 MB too');

select * from finish();
rollback;
