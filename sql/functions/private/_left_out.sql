-- The chunks of the tally, at most n, that have something left to count which was left out before:
-- ids of a transaction that has ended since, or what purge and redrive have noted.
create or replace function batchq._left_out(mark batchq.tally_mark, n integer)
returns setof batchq.tally_visit
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_left_out$
declare
    v_running constant bigint[] := (_left_out.mark).running;
begin
    return query
    select c.axis::text, c.segment, c.chunk, c.upto, c.running, c.looked_at,
           array(select unnest(c.running) intersect select unnest(v_running))
    from batchq.tally_chunk c join batchq.tally_part p on p.axis = c.axis
    where c.axis = 'job' and c.chunk < p.tail and not c.running <@ v_running
    order by c.chunk
    limit _left_out.n;
    return query
    select v.*
    from (select distinct g.axis, g.segment, g.chunk from batchq.tally_gone g
          where g.axis <> 'job' limit _left_out.n) g
    join batchq.tally_part p on p.axis = g.axis and p.segment = g.segment
    cross join lateral batchq._visits(p, g.chunk, g.chunk, v_running) v;
end
$_left_out$;
