begin;
select plan(8);
\ir ../clock.psql

select t.job_in(s, 'w-' || s, 'K', null, '10 s')
    from unnest(array['ready', 'scheduled', 'leased', 'completed', 'failed',
    'cancelled']) s \g /dev/null
select t.job_in('ready', 'plain', 'K') \g /dev/null
select is(batchq._drop_keys(1000), 0::bigint, 'before their window ends no key is dropped');
select t.pass('10 s') \g /dev/null
select is(batchq._drop_keys(1000), 3::bigint,
    'F025 F095 at its end those of jobs that are over are');
select is((select string_agg(d.queue || coalesce(d.held_until::text, ''), ' ' order by d.queue)
    from batchq.dedupe d), 'plain w-leased w-ready w-scheduled',
    'those of jobs that are not stay, without a window');
select is(batchq._drop_keys(1000), 0::bigint, 'asked twice, nothing is left to do');
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('w-ready') l \g /dev/null
select is((select count(*) from batchq.dedupe d where d.queue = 'w-ready'), 0::bigint,
    'and such a key goes when its job is over');
select t.job_in('completed', 'n', 'K' || i, null, '1 s') from generate_series(1, 5) i \g /dev/null
select t.pass('2 s') \g /dev/null
select is(batchq._drop_keys(2), 2::bigint, 'F096 n bounds a call');
select is(batchq._drop_keys(1000), 3::bigint, 'F096 the next does the rest');

-- _release_keys
select t.job_in('ready', 'r', 'A') as a, t.job_in('ready', 'r', 'B', null, '1 h') as b,
    t.job_in('ready', 'r', 'C') as c \gset
select batchq._release_keys(array[:a, :b]) \g /dev/null
select is((select string_agg(d.dedupe_key, ' ' order by d.dedupe_key) from batchq.dedupe d
    where d.queue = 'r'), 'B C',
    '_release_keys gives back those of its jobs, unless a window holds them');

select * from finish();
rollback;
