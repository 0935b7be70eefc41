/*
 * The chunks where new rows go, at most n: from tail to edge, where the table ended when upto was
 * drawn. Of job only by a mark that reaches so far (is_whole), as a chunk below edge is counted for
 * good then; of a partition only if it may have gained rows. The last two of a partition stay in
 * its tail: who is about to add a row may have begun in the last but one.
 */
create or replace function batchq._tail_visits(
    mark batchq.tally_mark,
    is_whole boolean,
    n integer
)
returns setof batchq.tally_visit
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_tail_visits$
declare
    v_left integer := n;
    v_part batchq.tally_part;
    v_end bigint;
begin
    for v_part in
        select p.* from batchq.tally_part p
        where p.looked_upto < (_tail_visits.mark).upto
          and case when p.axis = 'job' then is_whole else p.looked_upto < p.wanted end
        order by p.axis, p.segment
    loop
        v_end := least(v_part.edge, v_part.tail + v_left - 1);
        return query
        select v.* from batchq._visits(v_part, v_part.tail, v_end, (_tail_visits.mark).running) v;
        v_left := v_left - greatest(v_end - v_part.tail + 1, 0)::integer;
        update batchq.tally_part p
        set tail = case when v_end < p.edge then v_end + 1
                        when p.axis = 'job' then p.edge
                        else greatest(p.edge - 1, 0) end,
            looked_upto = case when v_end < p.edge then p.looked_upto
                               else (_tail_visits.mark).upto end
        where p.axis = v_part.axis and p.segment = v_part.segment;
    end loop;
end
$_tail_visits$;
