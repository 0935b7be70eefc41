begin;
select plan(12);
\ir ../clock.psql
-- all of it within one minute
select t.set_clock(date_trunc('minute', t.now()) + interval '10 s') \g /dev/null

-- every mark that a test makes up takes this transaction for over
select batchq._latest_xid() as latest \gset
create function t.rows(axis text, chunk bigint, since timestamptz default t.now(), add bigint default 0)
returns text language sql as $$
    select string_agg(format('%s/%s %s %s %s %s %s %s %s', r.queue, r.kind, r.enqueued, r.completed,
        r.cancelled, r.failed, r.reaped, r.retried, r.dead_letters), ', ' order by r.queue, r.kind)
    from (select f.queue, f.kind, sum(f.enqueued) as enqueued, sum(f.completed) as completed,
                 sum(f.cancelled) as cancelled, sum(f.failed) as failed, sum(f.reaped) as reaped,
                 sum(f.retried) as retried, sum(f.dead_letters) as dead_letters
          from batchq._tally_rows(
              row($1, 0::smallint, $2, 0::bigint, '{}'::bigint[], $3, '{}'::bigint[]),
              row(batchq._latest_xid() + 1000 + $4, '{}'::bigint[]), batchq._latest_xid() + $4) f
          group by f.queue, f.kind) r
$$;

select t.job_in(s, 'q') from unnest(array['completed', 'cancelled', 'completed']) s \g /dev/null
select t.job_in('failed', 'd') \g /dev/null
select batchq.enqueue('k', queue => 'r', backoff => 'fixed', backoff_base => '1 h') \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('r') l \g /dev/null
select batchq.enqueue('k', queue => 'x', max_attempts => 1) \g /dev/null
select batchq.lease('x', lease_for => '1 s') \g /dev/null
select t.pass('2 s'), batchq.reap() \g /dev/null
select is(t.rows('job', 0), 'd/k 1 0 0 0 0 0 0, q/k 3 0 0 0 0 0 0, r/k 1 0 0 0 0 0 0, x/k 1 0 0 0 0 0 0',
    'jobs are what was enqueued');
select is(t.rows('outcome', 0), 'q/k 0 2 1 0 0 0 0', 'outcomes are completed or cancelled');
select is(t.rows('error', 0), 'd/k 0 0 0 1 0 0 1, r/k 0 0 0 1 0 1 0, x/k 0 0 0 0 1 0 1',
    'errors were reported or reaped; a retry or a dead letter followed');
select is(t.rows(a, 1), null, format('a chunk of %s has only its own rows', a))
    from unnest(array['job', 'outcome', 'error']) a;
select is(t.rows(a, 0, t.now() + interval '2 days'), null,
    format('%s: an xid that came round is not counted again', a)) from unnest(array['outcome', 'error']) a;
select is(t.rows('outcome', 0, t.now(), 4294967296), 'q/k 0 2 1 0 0 0 0', 'an epoch makes no difference');
select is(string_agg(distinct r.at::text, ' '), date_trunc('minute', t.now())::text,
    format('each %s at its minute', a))
    from unnest(array['job', 'outcome', 'error']) a cross join lateral batchq._tally_rows(
        row(a, 0::smallint, 0, 0::bigint, '{}'::bigint[], t.now(), '{}'::bigint[]),
        row(batchq._latest_xid() + 1000, '{}'::bigint[]), batchq._latest_xid()) r
    group by a;

select * from finish();
rollback;
