begin;
select plan(97);
\ir ../clock.psql

create function t.many(variadic arguments text[]) returns text language plpgsql as $$
declare
    v_done batchq.cancelled_jobs;
begin
    execute format('select (c).* from batchq.cancel_many(%s) c', array_to_string(arguments, ', '))
        into v_done;
    return format('%s %s %s', v_done.cancelled, v_done.asked, v_done.deferred);
end
$$;

-- every state
create temporary table s as select x.state, t.job_in(x.state, 's-' || x.state, 'K') as id
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed', 'cancelled']) x(state);
select is(t.many('kind => ''k''', 'reason => ''why'''), '2 1 0',
    'pending jobs are cancelled at once, running ones asked to stop');
select is(t.job(s.id), x.now, format('a %s job is %s then', s.state, x.now))
from s join (values ('ready', 'cancelled:0'), ('scheduled', 'cancelled:0'), ('leased', 'leased:1'),
    ('completed', 'completed:1'), ('failed', 'failed:1'), ('cancelled', 'cancelled:0')) x(state, now)
    using (state) order by s.state;
select is((select string_agg(s.state, ' ') from s join batchq.dedupe d on d.job_id = s.id), 'leased',
    'F025 C-6 the keys of cancelled jobs are given back, those of running ones kept');
select is((t.of(s.id)).last_error, 'why', format('the reason of the %s one shows', s.state))
    from s where s.state in ('ready', 'scheduled');
select is((t.of(s.id)).finished_at, t.now(), 'A-58 and when it was')
    from s where s.state = 'ready';
select is(j.status || ' ' || (j.cancel_requested_at = t.now()), 'running true',
    'A-83 the running one runs on, and the request shows')
    from s join jobs j on j.id = s.id where s.state = 'leased';
select is(t.many('kind => ''k''', 'reason => ''again'''), '0 0 0',
    'asked twice, nothing is left to do: those that were asked are not counted again');
select is(e.state, 'cancelled', 'A-83 F081 its next heartbeat tells')
    from s, lateral batchq.extend(array[s.id], array[t.lease_of(s.id)]) e where s.state = 'leased';
select is(batchq.release(s.id, t.lease_of(s.id)), 'cancelled', 'A-83 and its end cancels it')
    from s where s.state = 'leased';
select is((t.of(s.id)).last_error, 'why', 'with the first reason') from s where s.state = 'leased';
select is(t.take('s-ready'), null, 'A-83 a cancelled job is not handed out');
select t.pass('2 h') \g /dev/null
select is(t.take('s-scheduled'), null, 'A-83 nor when its time has come');
select isnt(batchq.enqueue('k', queue => 's-' || s.state, dedupe_key => 'K'), s.id,
    format('F025 the key of the %s one is free', s.state))
    from s where s.state in ('ready', 'scheduled', 'leased') order by s.state;
select is(batchq._check_floors(), 0::bigint, 'the floors stand');

-- a released job, a retry, a lane that was forgotten, odd priorities
select batchq.enqueue('k', queue => 'back') from generate_series(1, 3) \g /dev/null
select batchq.release(l.job_id, l.lease_id) from batchq.lease('back', 2) l \g /dev/null
select batchq.enqueue('k', queue => 'back', priority => 7) \g /dev/null
delete from batchq.floor where queue = 'back' and priority = 7;
select batchq.enqueue('k', queue => 'back', priority => -9) as a \gset
select batchq.fail(l.job_id, l.lease_id, 'e1') from batchq.lease('back') l \g /dev/null
select is(t.many('queue => ''back''', 'reason => ''why''') || ' ' || count(*), '5 0 0 5',
    'jobs that took a new place, wait for a retry or are in any lane are found')
    from jobs j where j.queue = 'back';
select is(string_agg(j.state || j.attempts || j.last_error, ' ' order by j.last_error),
    'cancelled1e1 cancelled0why cancelled0why cancelled0why cancelled0why',
    'and keep attempts and errors') from jobs j where j.queue = 'back';
select is((select count(*) from batchq.ready where queue = 'back')
    + (select count(*) from batchq.scheduled where queue = 'back'), 0::bigint, 'and are gone');

-- filters
create function t.fill(queue text) returns void language plpgsql as $$
begin
    perform batchq.enqueue(o.k, queue => $1, delay => o.d)
    from (select k, d
          from unnest(array['x', 'y']) k, unnest(array[null, '1 h'::interval]) d,
              generate_series(1, 3)
          order by k, d nulls first) o;
    perform batchq.lease($1, 2);
end
$$;
select t.fill('f1'), t.now() as cut \gset
select t.pass('1 min'), t.fill('f2') \g /dev/null
select is(t.many(f, 'dry_run => true'), x.counts, f) from (values
    ('queue => ''f1''', '10 2 0'), ('queue => ''f1'', kind => ''x''', '4 2 0'),
    ('queue => ''f2'', kind => ''y''', '6 0 0'), ('queue => ''f1'', kind => ''z''', '0 0 0'),
    ('queue => ''nobody''', '0 0 0'),
    ('queue => ''f1'', state => ''ready''', '4 0 0'),
    ('queue => ''f1'', state => ''scheduled''', '6 0 0'),
    ('queue => ''f1'', state => ''leased''', '0 2 0'),
    ('queue => ''f1'', state => ''pending''', '10 0 0'),
    ('queue => ''f1'', state => ''running''', '0 2 0'),
    ('queue => ''f1'', state => ''processing''', '0 2 0'),
    ('kind => ''y'', state => ''ready''', '6 0 0'),
    ('kind => ''y'', state => ''leased''', '0 0 0')) x(f, counts);
select is(t.many(format(f, :'cut'), 'dry_run => true'), x.counts, format(f, 'cut')) from (values
    ('kind => ''x'', created_before => %L', '0 0 0'),
    ('kind => ''x'', created_after => %L', '8 4 0'),
    ('kind => ''x'', created_before => %L::timestamptz + interval ''1 us''', '4 2 0'),
    ('kind => ''x'', created_after => %L::timestamptz + interval ''1 us''', '4 2 0'),
    ('kind => ''x'', created_after => %L, created_before => ''infinity''', '8 4 0'),
    ('queue => ''f1'', created_after => %L, state => ''scheduled''', '6 0 0')) x(f, counts);
select is(t.many('queue => ''f1''', 'dry_run => null'), '10 2 0', 'so does a dry_run of null');
select is((select count(*) from jobs where queue in ('f1', 'f2') and state <> 'cancelled'
    and cancel_requested_at is null), 24::bigint, 'and neither changes anything');
select is((select count(*) from batchq.outcome o join batchq.job j on j.id = o.job_id
    where j.queue in ('f1', 'f2')), 0::bigint, 'nor is anything over');

-- n
select min(id) as lowest from jobs where queue = 'f1' \gset
select is(t.many('queue => ''f1''', 'n => 5', 'dry_run => true'), '3 2 0', 'n bounds a dry run');
select is(t.many('queue => ''f1''', 'n => 3'), '1 2 0', 'F096 n bounds a call');
select is((select string_agg((j.id - :lowest)::text, ' ' order by j.id) from jobs j
    where j.queue = 'f1' and (j.state = 'cancelled' or j.cancel_requested_at is not null)), '0 1 2',
    'F096 the lowest ids first, whatever their states');
select is(t.many('queue => ''f1''', 'n => 3'), '3 0 0', 'F096 the next ones');
select is((select max(j.id) - :lowest from jobs j where j.queue = 'f1' and j.state = 'cancelled'),
    5::bigint, 'F096 again in the order of ids');
select is(t.many('queue => ''f1''', 'n => 7'), '6 0 0', 'F096 the rest, less than n');
select is(t.many('queue => ''f1''', 'n => 7'), '0 0 0', 'F096 and then nothing, though two run');

-- jobs by their ids
select array_agg(id order by id) as ids, min(id) as first, max(id) as last from jobs
    where queue = 'f2' \gset
select is(t.many(format('array[%s, %1$s, %s]', :first, :last)), '1 1 0',
    'F065 these jobs, an id twice once');
select is(t.many(format('%L', :'ids'), 'n => 4'), '3 1 0', 'n bounds them too');
select is(t.many(format('%L', :'ids'), 'kind => ''y''', 'state => ''scheduled'''), '2 0 0',
    'filters hold for them');
select is(t.many(format('%L', :'ids')), '4 0 0', 'the rest; what is over is left alone');
select is(t.many('''{}'''), '0 0 0', 'F065 an empty list is none');
select throws_ok(format('select batchq.cancel_many(%L)', v), 'JQ003', x.said,
    format('%s is not found', v)) from (values ('{-1}', 'no job -1'), ('{NULL}', 'no job null'),
    ('{9223372036854775807}', 'no job 9223372036854775807')) x(v, said);
select batchq.enqueue('k', queue => 'atomic') as a \gset
select throws_ok(format('select batchq.cancel_many(array[%s, -5, -6])', :a), 'JQ003', 'no job -5',
    'one bad id, and the first is named');
select is(t.job(:a), 'ready:0', 'and nothing is cancelled');
select is(t.many(format('array[%s]', t.job_in(s, 'over-' || s))), '0 0 0',
    format('a %s job is left alone', s)) from unnest(array['completed', 'failed', 'cancelled']) s;

-- refused
select throws_ok(format('select batchq.cancel_many(%s)', v), 'JQ001', null,
    format('F065 %s is refused', coalesce(nullif(v, ''), 'nothing at all')))
from unnest(array['', 'dry_run => true', 'reason => ''x''', 'n => 5', 'queue => ''q'', n => 0',
    'queue => ''q'', n => -1', 'queue => ''q'', n => null', 'queue => ''q'', n => 100001',
    'state => ''completed''', 'state => ''failed''', 'state => ''''', 'state => ''Ready''',
    '(select array_agg(i) from generate_series(1, 100001) i)']) v;
select count(*) filter (where status = 'pending') as pending,
    count(*) filter (where status = 'running' and cancel_requested_at is null) as running
    from jobs \gset
select is(t.many('created_before => t.now() + interval ''1 s''', 'n => 100000'),
    format('%s %s 0', :pending, :running), 'everything, said explicitly');
select is((select count(*) from batchq.ready) + (select count(*) from batchq.scheduled), 0::bigint,
    'and nothing waits any more');

-- beyond an id
create function t.step(n integer, after_id bigint) returns text language sql as $$
    select c.cancelled || ' ' || coalesce(c.last_id - $2, 0)
    from batchq.cancel_many(queue => 'steps', n => $1, after_id => $2) c
$$;
select max(x.id) as top from (
    select batchq.enqueue('k', queue => 'steps') as id from generate_series(1, 5)) x \gset
select is(t.step(2, :top - 5), '2 2', 'F096 last_id is where to go on');
select is(t.step(2, :top - 2), '2 2', 'from there on others are found');
select is(t.step(2, :top), '0 0', 'null where there are no more');
select is(t.step(2, :top - 5), '1 0', 'what was left out before it is found from the beginning');

-- jobs that wait for their turn
select batchq.set_queue('turns', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'turns', group_key => 'g') from generate_series(1, 4) \g /dev/null
select batchq.lease('turns') \g /dev/null
select is(t.many('queue => ''turns''', 'state => ''blocked''', 'n => 1'), '1 0 0',
    'blocked jobs are cancelled');
select is(t.many('queue => ''turns''', 'state => ''pending'''), '2 0 0', 'as pending ones, too');

-- 5,000 reasons
select batchq.enqueue('k', queue => 'long') as a \gset
select t.many('queue => ''long''', 'reason => repeat(''x'', 5000)') \g /dev/null
select is((t.of(:a)).last_error, repeat('x', 1000), 'at most 1,000 characters of the reason');

-- roles
select batchq.enqueue('k', queue => 'role') \g /dev/null
set local role batchq_operator;
select cancelled from batchq.cancel_many(queue => 'role') \gset
reset role;
select is(:cancelled, 1, 'F078 the role batchq_operator may call it, inside a transaction');
select throws_ok(format('set local role %I; select batchq.cancel_many(queue => ''q'')', r), '42501',
    null, format('D-7 %s may not', r)) from unnest(array['batchq_producer', 'batchq_worker',
    'batchq_monitor']) r;

-- what cancelled jobs held is given back
select batchq.set_queue('lim', group_limit => 2, max_running => 9) \g /dev/null
select batchq.enqueue('k', queue => 'lim', group_key => 'g', dedupe_key => 'K' || i) as a
    from generate_series(1, 6) i \g /dev/null
select batchq._admit('lim', 0, 9) \g /dev/null
select is(t.many('queue => ''lim''', 'n => 3'), '3 0 0', 'ready and blocked jobs are cancelled');
select is(t.count('lim') || ' ' || t.seats('lim'), '2 g:2', 'F019 the next ones take their seats');
select is(t.many('queue => ''lim'''), '1 2 0', 'the rest is cancelled or asked');
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.leased l where l.queue = 'lim' \g /dev/null
select is(t.count('lim') || t.seats('lim') || ' ' || t.free('lim') || ' '
          || (select count(*) from batchq.dedupe d where d.queue = 'lim'), '0 9 0',
    'then seats, permits and keys are free');

select * from finish();
rollback;
