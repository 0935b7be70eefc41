begin;
select plan(15);
\ir ../clock.psql

create function t.newest() returns text language sql as $$
    select a.actor || ' ' || a.db_user from batchq.list_audit(1) a
$$;
select batchq.pause('q') \g /dev/null
select is(t.newest(), session_user || ' ' || session_user, 'nobody named: the database''s user acts');
select is(batchq.act_as('ann')::text, '', 'an actor is named');
select batchq.resume('q') \g /dev/null
select is(t.newest(), 'ann ' || session_user, 'what is done then bears the name, and the user''s too');
select batchq.act_as('Bob''s "bot" 🐘'), batchq.pause('q') \g /dev/null
select is(t.newest(), 'Bob''s "bot" 🐘 ' || session_user, 'another may be named');
select batchq.act_as(repeat('ü', 200)), batchq.pause('q') \g /dev/null
select is(t.newest(), repeat('ü', 200) || ' ' || session_user, 'of up to 200 characters');
select batchq.act_as(null), batchq.pause('q') \g /dev/null
select is(t.newest(), session_user || ' ' || session_user, 'and null is nobody again');
select throws_ok(format('select batchq.act_as(%L)', v), 'JQ001', null, format('%L… is refused',
    left(v, 9))) from unnest(array['', repeat('x', 201)]) v;
set local batchq.actor = 'by hand';
select batchq.pause('q') \g /dev/null
select is(t.newest(), 'by hand ' || session_user, 'it is a setting, and a claim: no right is in it');
select batchq.act_as('operator') \g /dev/null
select throws_ok($$ set local role batchq_producer; select batchq.pause('q') $$, '42501', null,
    'F074 nor does a name give any');

create function t.may(role text) returns text language plpgsql as $$
begin
    perform set_config('role', $1, true);
    perform batchq.act_as('ann');
    perform set_config('role', 'none', true);
    return $1;
end
$$;
grant usage on schema t to public;
select is(string_agg(t.may('batchq_' || r), ' ' order by r),
    'batchq_monitor batchq_operator batchq_producer batchq_worker', 'F074 every role may call it')
    from unnest(array['producer', 'worker', 'operator', 'monitor']) r;

savepoint s;
select batchq.act_as('ann') \g /dev/null
rollback to s;
select batchq.act_as('zoe') \g /dev/null
select is(current_setting('batchq.actor'), 'zoe', 'it is set for the transaction');
commit;
select is(coalesce(current_setting('batchq.actor', true), ''), '', 'and gone when that has ended');
begin;
select batchq.act_as('ann') \g /dev/null
rollback;
select is(coalesce(current_setting('batchq.actor', true), ''), '', 'however it ends');
begin;
select is(has_function_privilege('public', 'batchq.act_as(text)', 'execute'), false,
    'F074 nobody else may call it');

select * from finish();
rollback;
