begin;
select plan(37);
\ir ../clock.psql

select batchq.set_queue('q', group_limit => 2) \g /dev/null
select batchq.set_group('q', 'big', group_limit => 5) \g /dev/null
select batchq.enqueue('k', queue => 'q', group_key => g)
    from generate_series(1, 10), unnest(array['big', 'small']) g \g /dev/null
create function t.groups(queue text) returns text language sql as $$
    select string_agg(g.group_key || g.n, ' ' order by g.group_key)
    from (select j.group_key, count(*) as n
          from batchq.lease($1, 100) l join batchq.jobs j on j.id = l.job_id
          group by j.group_key) g
$$;
select is(t.groups('q'), 'big5 small2', 'group_limit: that of the group counts more');
select batchq.set_group('q', 'small', group_limit => 3) \g /dev/null
select is(t.groups('q'), 'small1', 'raised: the group is looked at at once');
select batchq.set_group('q', 'small', group_limit => 0) \g /dev/null
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l \g /dev/null
select is(t.groups('q'), 'big5', '0 stops the group, and no other');
select batchq.set_group('q', 'small', weight => 4) \g /dev/null
select is(t.groups('q'), null, 'what is null stays as it was');
select batchq.set_group('q', 'small', reset => true) \g /dev/null
select is(t.groups('q'), 'small2', 'reset: as the queue says');
select is((select g.weight from batchq.group_setting g where g.group_key = 'small'), null,
    'weight too');

-- weights
select batchq.set_queue('f', fair => true) \g /dev/null
select batchq.set_group('f', 'heavy', weight => 3) \g /dev/null
select batchq.enqueue('k', queue => 'f', group_key => g)
    from generate_series(1, 300), unnest(array['heavy', 'light']) g \g /dev/null
select is(t.groups('f'), 'heavy60 light20', 'weight 3: three times as many jobs a round');
select is(t.groups('f'), 'heavy60 light20', 'in the next too');

-- a group's own cap in a queue whose groups take turns
select batchq.set_queue('fg', fair => true) \g /dev/null
select batchq.set_group('fg', 'one', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'fg', group_key => g)
    from generate_series(1, 3), unnest(array['one', 'other']) g \g /dev/null
select is(t.groups('fg'), 'one1 other3', 'a limit of one group where groups only take turns');
select is(t.groups('fg'), null, 'counts jobs that run');

-- before anything else of its queue
select lives_ok($$ select batchq.set_group('new', 'g', group_limit => 1) $$,
    'a group may be set up before its queue');
select is(t.job(batchq.enqueue('k', queue => 'new', group_key => 'g')), 'ready:0',
    'it counts where the queue limits its groups');
select batchq.set_queue('new', group_limit => 9) \g /dev/null
select batchq.enqueue('k', queue => 'new', group_key => 'g') from generate_series(1, 3) \g /dev/null
select is(t.groups('new'), 'g1', 'then it does');

-- bounds
select throws_ok(format('select batchq.set_group(%s)', v), 'JQ001', null,
    format('D-6 %s is refused', left(v, 40)))
from unnest(array['null, ''g''', ''''', ''g''', format('%L, ''g''', repeat('q', 256)),
    '''q'', null', '''q'', ''''', format('''q'', %L', repeat('g', 256)),
    '''q'', ''g'', group_limit => -1', '''q'', ''g'', group_limit => 10001',
    '''q'', ''g'', weight => 0', '''q'', ''g'', weight => -1', '''q'', ''g'', weight => 1001'
    ]) v;
select lives_ok(format('select batchq.set_group(%s)', v), format('%s is taken', left(v, 40)))
from unnest(array['''q'', ''g''', format('%L, ''g''', repeat('q', 255)),
    format('''q'', %L', repeat('𝄞', 255)), '''q'', ''g'', group_limit => 10000',
    '''q'', ''g'', weight => 1', '''q'', ''g'', weight => 1000', '''q'', ''g'', reset => null',
    '''a"b%s/'', ''a'''';drop table x;--''']) v;

-- parked workers, roles
select batchq.set_queue('r', group_limit => 1) \g /dev/null
set local role batchq_operator;
select batchq.set_group('r', 'g', group_limit => 2) \g /dev/null
reset role;
select is((select g.group_limit from batchq.group_setting g where g.queue = 'r'), 2,
    'F078 the role batchq_operator may call it, inside a transaction');
select throws_ok(format('set local role %I; select batchq.set_group(''q'', ''g'')', r), '42501',
    null, format('D-7 %s may not', r))
from unnest(array['batchq_producer', 'batchq_worker', 'batchq_monitor']) r;
select is(t.code($$ insert into batchq.group_setting (queue, group_key) values ('q', 'big') $$),
    '23505', 'a group has one row of settings');

select * from finish();
rollback;
