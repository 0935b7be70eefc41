begin;
select plan(8);
\ir ../clock.psql

create function t.found(job_id bigint) returns batchq.found_job language sql as $$
    select row(c.job_id, c.state, c.place)::batchq.found_job
    from batchq._cancellable(array['ready', 'scheduled', 'leased'], array[$1], null, null, null, null,
                             1, 0) c
$$;
create function t.taken(variadic jobs batchq.found_job[]) returns text language sql as $$
    select string_agg(t.job_id || t.state, ' ' order by t.job_id) from batchq._cancel_found($1, 'r') t
$$;
select t.job_in('ready', 'a') as a, t.job_in('ready', 'b') as b, t.job_in('scheduled', 'c') as c,
    t.job_in('scheduled', 'd') as d, t.job_in('leased', 'e') as e, t.job_in('leased', 'f') as f \gset

-- a place that is another job's by now
create function t.at(job_id bigint, other bigint) returns batchq.found_job language sql as $$
    select row($1, (t.found($1)).state, (t.found($2)).place)::batchq.found_job
$$;
select is(t.taken(t.at(:a, :b), t.at(:c, :d), t.at(:e, :f)), null,
    'a row that is not the job''s own any more is left alone');
select is((select count(*) from jobs where state = 'cancelled' or cancel_requested_at is not null),
    0::bigint, 'and so is whose it is');

-- a job that has moved on
select t.found(:a) as old \gset
select batchq.lease('a') \g /dev/null
select is(t.taken(:'old'), null, 'a job that was leased meanwhile is not there');
select t.found(:e) as old \gset
select batchq.extend(array[:e], array[t.lease_of(:e)]) \g /dev/null
select is(t.taken(:'old'), null, 'nor is one that was extended, in its old place');
select is(t.taken(t.found(:e)), :e || 'leased', 'it is in the new one');
select is(t.taken(t.found(:b), t.found(:c)), format('%scancelled %scancelled', :b, :c),
    'those that are where they were found are taken');
select is(t.taken(variadic '{}'), null, 'of none none is taken');
select is(t.job(:d) || ' ' || (select cancel_requested_at is null from jobs where id = :f),
    'scheduled:0 true', 'and no other');

select * from finish();
rollback;
