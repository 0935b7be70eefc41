-- A new job of a group begins to wait for its turn. See _block; called after the job's place, its
-- id, was drawn.
create or replace function batchq._block_one(
    job_id bigint,
    segment smallint,
    priority integer,
    ties integer,
    queue text,
    group_key text,
    rank smallint
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_block_one$
declare
    v_now constant timestamptz := batchq._now();
begin
    insert into batchq.blocked (pos, job_id, since, segment, priority, rank, attempt, ties, queue,
                                group_key)
    values (_block_one.job_id, _block_one.job_id, v_now, _block_one.segment, _block_one.priority,
            _block_one.rank, 0, _block_one.ties, _block_one.queue, _block_one.group_key);
    insert into batchq.call (due_at, queue, group_key, rank, pos)
    values (v_now, _block_one.queue, _block_one.group_key, _block_one.rank, _block_one.job_id);
    perform batchq._add_line(_block_one.queue, 'round', 0::smallint);
end
$_block_one$;
