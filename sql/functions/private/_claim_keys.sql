/*
 * Claim the dedupe keys of a batch: for each of its jobs the id of the one that holds its key, or
 * its own id. Keys are claimed in their own order, so that two batches cannot wait for each other
 * in a circle. The second job of a batch with one key is a duplicate of the first. Names that do
 * not fit are left to _insert_jobs to refuse: one too long for the index would fail in here.
 */
create or replace function batchq._claim_keys(jobs jsonb, ids bigint[], segment smallint)
returns bigint[]
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_claim_keys$
declare
    v_now constant timestamptz := batchq._now();
    v_holders bigint[] := _claim_keys.ids;
    v_item record;
    v_last record;
begin
    select ''::text as queue, ''::text as dedupe_key, 0::bigint as holder into v_last;
    for v_item in
        select e.ordinal, coalesce(s.queue, 'default') collate "C" as queue,
               s.dedupe_key collate "C" as dedupe_key, s.dedupe_scope, s.dedupe_for
        from jsonb_array_elements(_claim_keys.jobs) with ordinality as e(job, ordinal)
        cross join lateral jsonb_populate_record(null::batchq.job_spec, e.job) s
        where octet_length(s.dedupe_key) between 1 and 1024
          and char_length(coalesce(s.queue, 'default')) between 1 and 255
        order by 2, 3, 1
    loop
        if (v_item.queue, v_item.dedupe_key) is distinct from (v_last.queue, v_last.dedupe_key) then
            select v_item.queue, v_item.dedupe_key,
                   batchq._claim_key(v_item.queue, v_item.dedupe_key,
                       _claim_keys.ids[v_item.ordinal], _claim_keys.segment,
                       coalesce(v_item.dedupe_scope, 'unfinished'),
                       v_now + batchq._exact(v_item.dedupe_for)) as holder
            into v_last;
        end if;
        v_holders[v_item.ordinal] := v_last.holder;
    end loop;
    return v_holders;
end
$_claim_keys$;
