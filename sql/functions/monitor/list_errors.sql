/*
 * Why jobs are dead, by kind of error. Looks at a bounded number of dead letters, newest first, by
 * the indexes there are: those of a queue by time, else by id; more are only counted. Texts that
 * differ in digits only are brought together before they are made alike, as that is the dear part:
 * which digit it is changes nothing, but for the 0 of 0x.
 */
create or replace function batchq.list_errors(
    queue text default null,
    kind text default null,
    n integer default 100
)
returns setof batchq.dead_error
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $list_errors$
begin
    if not coalesce(n between 1 and 1000, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 1,000');
    end if;
    return query
    with letter as materialized (
        (select d.job_id, d.segment, d.failed_at from batchq.dead d
         where list_errors.queue is null
         order by d.job_id desc limit 5000)
        union all
        (select d.job_id, d.segment, d.failed_at from batchq.dead d
         where d.queue = list_errors.queue
         order by d.failed_at desc, d.job_id desc limit 5000)
    ), line as (
        select coalesce(translate(left(e.error, 2000), '23456789', '11111111'), '') collate "C"
                   as error, j.queue, j.kind, count(*) as jobs,
               min(l.failed_at) as first_at, max(l.failed_at) as last_at,
               (array_agg(l.job_id order by l.job_id desc))[1:10] as job_ids
        from letter l
        cross join lateral (
            select f.queue, f.kind from batchq.job f
            where f.id = l.job_id and f.segment = l.segment limit 1) j
        left join lateral (
            select x.error from batchq.error x
            where x.job_id = l.job_id and x.segment = l.segment
            order by x.lease_id desc limit 1) e on true
        where list_errors.kind is null or j.kind = list_errors.kind
        group by 1, 2, 3
    )
    (select batchq._error_group(i.error), i.queue::text, i.kind::text,
            (sum(i.jobs) filter (where s.place = 1))::bigint, min(i.first_at), max(i.last_at),
            (array_agg(s.job_id order by s.job_id desc))[1:10]
     from line i
     cross join lateral unnest(i.job_ids) with ordinality s(job_id, place)
     group by 1, 2, 3
     order by 4 desc, 6 desc, 1, 2, 3
     limit list_errors.n)
    union all
    select null, list_errors.queue, null, r.jobs, null, null, null
    from (select count(*) - 5000 as jobs
          from (select from batchq.dead d
                where (select count(*) from letter) = 5000
                  and (list_errors.queue is null or d.queue = list_errors.queue)
                limit 100000) c) r
    where r.jobs > 0;
end
$list_errors$;

comment on function batchq.list_errors is $comment$
Why jobs are dead: dead letters that failed alike, the most frequent first. Alike is the first line
of the newest error, with N for numbers, UUIDs and hex, and … for quoted text.

queue, kind: exact names; null for all. n: 1 to 1,000 groups. Looks at 5,000 dead letters: the
newest of that queue, or those of the highest ids of all queues; of these, at those of the kind.

Returns: dead_error rows. Where there are more dead letters, of any kind, the last row has no error:
its jobs are those that were not looked at, counted up to 95,000.
Errors: JQ001 n is out of its bounds.
Role: batchq_monitor, and every other role of batchq.
Example: select error, kind, jobs, last_at from batchq.list_errors('mail', n => 10)
$comment$;
