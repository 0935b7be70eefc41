/*
 * Enqueueing many jobs: one statement for all of them, and one more pass if any has a dedupe key.
 *
 * Ids are drawn in input order before keys are claimed in key order, so places follow the input
 * and two batches cannot deadlock. Typed values are parsed in a subtransaction, so that a value of
 * the wrong type can be reported with the place of its job.
 */
create or replace function batchq.enqueue_many(jobs jsonb)
returns setof batchq.enqueued_job
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
set intervalstyle = 'postgres'
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
as $enqueue_many$
declare
    v_n integer := case jsonb_typeof(jobs) when 'array' then jsonb_array_length(jobs) end;
    v_segment smallint;
    v_ids bigint[];
    v_holders bigint[];
    v_line record;
begin
    if v_n is null or v_n > 100000 then
        perform batchq._raise('JQ001',
            format('invalid jobs: %s', coalesce(v_n || ' jobs', jsonb_typeof(jobs), 'null')),
            'give a JSON array of at most 100,000 objects');
    end if;
    v_segment := batchq._segment();
    select array_agg(batchq._next_place()) into v_ids from generate_series(1, v_n);
    begin
        if jobs @? '$[*].dedupe_key' then
            v_holders := batchq._claim_keys(jobs, v_ids, v_segment);
        end if;
        for v_line in
            select i.*, q.max_depth is not null as bounded
            from batchq._insert_jobs(jobs, v_ids, v_holders, v_segment) i
            left join batchq.queue q on q.queue = i.queue
            order by i.queue, i.line, i.priority
        loop
            if v_line.line = 'round' then
                perform batchq._block_new(v_line.queue, v_ids, v_segment);
            elsif v_line.line = 'scheduled' or v_line.priority <> 0 then
                perform batchq._add_line(v_line.queue, v_line.line, v_line.priority);
            end if;
            if v_line.bounded and v_line.line <> 'scheduled' then
                perform batchq._fit_depth(v_line.queue, v_ids);
            end if;
            perform batchq._ring(v_line.queue);
        end loop;
    exception when data_exception then
        perform batchq._refuse_item(e.job, e.ordinal)
        from jsonb_array_elements(jobs) with ordinality as e(job, ordinal);
        raise;
    end;
    if v_holders is not null then
        perform batchq._replace_duplicates(jobs, v_ids, v_holders);
    end if;
    return query
    select h.ordinal::integer, h.holder, h.holder = v_ids[h.ordinal]
    from unnest(coalesce(v_holders, v_ids)) with ordinality as h(holder, ordinal);
end
$enqueue_many$;

comment on function batchq.enqueue_many is $comment$
Add many jobs in one call, all or none.

jobs: a JSON array of at most 100,000 objects. Their fields are the parameters of enqueue by name;
kind is required, unknown fields are refused, null means not given (but for payload, where it is
refused). Intervals are text ('5 min') or a number of seconds; times are text, in UTC where they
name no zone.
Jobs of one lane are leased in the order of the array.

Returns: one row a job (ordinal from 1, job_id, is_new), in input order. is_new is false where
another job holds the dedupe key; job_id is that job's.
Errors: JQ001 a value is out of its bounds; the message names the place of the job. JQ006 a queue
is full. Nothing is stored then.
Role: batchq_producer.
Example: select * from batchq.enqueue_many('[{"kind": "a"}, {"kind": "b", "delay": 5}]')
$comment$;
