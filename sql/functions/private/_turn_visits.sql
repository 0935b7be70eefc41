-- The next n chunks below the tail of the partition that has waited longest for its turn: VACUUM
-- may have made room there, or a transaction stayed open while the others went on.
create or replace function batchq._turn_visits(mark batchq.tally_mark, n integer)
returns setof batchq.tally_visit
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_turn_visits$
declare
    v_part batchq.tally_part;
    v_first bigint;
    v_end bigint;
begin
    select p.* into v_part
    from batchq.tally_part p
    where p.axis <> 'job' and p.tail > 0 and (p.cold is not null or p.turned_upto < p.wanted)
    order by p.turned_upto, p.axis, p.segment
    limit 1;
    if not found then
        return;
    end if;
    v_first := coalesce(v_part.cold, 0);
    v_end := least(v_part.tail, v_first + n) - 1;
    update batchq.tally_part p
    set cold = case when v_end + 1 < p.tail then v_end + 1 end,
        turned_upto = case when p.cold is null then (_turn_visits.mark).upto
                           else p.turned_upto end
    where p.axis = v_part.axis and p.segment = v_part.segment;
    return query
    select v.* from batchq._visits(v_part, v_first, v_end, (_turn_visits.mark).running) v;
end
$_turn_visits$;
