-- The chunks of one part of the tally from first to last, with their marks. running: whom their
-- next marks will leave out.
create or replace function batchq._visits(
    part batchq.tally_part,
    first bigint,
    last bigint,
    running bigint[]
)
returns setof batchq.tally_visit
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $_visits$
begin
    return query
    select (_visits.part).axis::text, (_visits.part).segment, g.chunk,
           coalesce(c.upto, (_visits.part).upto), coalesce(c.running, (_visits.part).running),
           coalesce(c.looked_at, (_visits.part).since), _visits.running
    from generate_series(_visits.first, _visits.last) as g(chunk)
    left join batchq.tally_chunk c
      on c.axis = (_visits.part).axis and c.segment = (_visits.part).segment and c.chunk = g.chunk;
end
$_visits$;
