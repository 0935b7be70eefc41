/*
 * Note which partitions may have gained rows since the tally last looked. The statistics tell; they
 * may come late, as a session hands in its own when it has been idle for a while, but they come
 * after its transaction has ended. So whatever they know of belongs to transactions below the xmax
 * of a snapshot taken after they were read.
 *
 * A partition with another file was truncated or written anew since the last step, whose mark is
 * known: it begins there. Who was over by then had left his rows in the old file.
 */
create or replace function batchq._look_at_parts(known batchq.tally_mark)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_look_at_parts$
declare
    v_counts_are_kept constant boolean := current_setting('track_counts')::boolean;
    v_axes text[];
    v_segments smallint[];
    v_files oid[];
    v_inserted bigint[];
    v_sizes bigint[];
begin
    select array_agg(p.axis), array_agg(p.segment), array_agg(pg_relation_filenode(r.name)),
           array_agg(pg_stat_get_tuples_inserted(r.name)), array_agg(pg_relation_size(r.name))
    into v_axes, v_segments, v_files, v_inserted, v_sizes
    from batchq.tally_part p
    cross join lateral (
        select format('batchq.%s_%s', p.axis, p.segment)::regclass as name) r
    where p.axis <> 'job';
    delete from batchq.tally_chunk c
    using batchq.tally_part p, unnest(v_axes, v_segments, v_files) as s(axis, segment, file)
    where p.axis = s.axis and p.segment = s.segment and p.file <> s.file
      and c.axis = p.axis and c.segment = p.segment;
    update batchq.tally_part p
    set upto = case when p.file <> s.file then (_look_at_parts.known).upto else p.upto end,
        running = case when p.file <> s.file then (_look_at_parts.known).running
                       else p.running end,
        since = case when p.file <> s.file then batchq._now() else p.since end,
        tail = case when p.file is null then batchq._last_chunk(p.axis, p.segment)
                    when p.file <> s.file then 0 else p.tail end,
        edge = case when p.file is null then batchq._last_chunk(p.axis, p.segment)
                    when p.file <> s.file then 0 else p.edge end,
        cold = case when p.file <> s.file then null else p.cold end,
        file = s.file,
        inserted = s.inserted,
        wanted = case when s.size > 0 then pg_snapshot_xmax(pg_current_snapshot())::text::bigint
                      else p.wanted end
    from unnest(v_axes, v_segments, v_files, v_inserted, v_sizes)
        as s(axis, segment, file, inserted, size)
    where p.axis = s.axis and p.segment = s.segment
      and ((p.file, p.inserted) is distinct from (s.file, s.inserted) or not v_counts_are_kept);
end
$_look_at_parts$;
