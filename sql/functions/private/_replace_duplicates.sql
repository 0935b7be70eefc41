-- Those jobs of a batch that were duplicates and ask to replace the job that holds their key.
create or replace function batchq._replace_duplicates(jobs jsonb, ids bigint[], holders bigint[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_replace_duplicates$
declare
    v_now constant timestamptz := batchq._now();
    v_item record;
begin
    for v_item in
        select e.ordinal, e.job, s.headers,
               coalesce(s.run_at, v_now + batchq._exact(s.delay), v_now) as run_at
        from jsonb_array_elements(_replace_duplicates.jobs) with ordinality as e(job, ordinal)
        cross join lateral jsonb_populate_record(null::batchq.job_spec, e.job) s
        where s.on_duplicate = 'replace'
          and _replace_duplicates.holders[e.ordinal] <> _replace_duplicates.ids[e.ordinal]
        order by _replace_duplicates.holders[e.ordinal], e.ordinal
    loop
        perform batchq._replace_pending(
            _replace_duplicates.holders[v_item.ordinal], coalesce(v_item.job -> 'payload', '{}'),
            v_item.headers, v_item.run_at);
    end loop;
end
$_replace_duplicates$;
