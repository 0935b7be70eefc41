-- The jobs of a batch that are in a group and may run begin to wait for their turn. See _block.
create or replace function batchq._block_new(queue text, ids bigint[], segment smallint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_block_new$
begin
    perform batchq._block(
        array_agg(row(j.id, j.segment, 0, 4 + (j.dedupe_key is not null)::integer, j.queue,
                      j.priority)::batchq.pending_job
                  order by i.ordinal),
        true)
    from unnest(_block_new.ids) with ordinality as i(id, ordinal)
    cross join lateral (
        select b.* from batchq.job b
        where b.id = i.id and b.segment = _block_new.segment
        limit 1) j
    where j.queue = _block_new.queue and j.group_key is not null and j.run_at <= j.created_at;
end
$_block_new$;
