-- Note where the tables end now, for the next step of the tally. head: the newest id.
create or replace function batchq._move_edges(head bigint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_move_edges$
begin
    update batchq.tally_part p
    set edge = e.edge, tail = least(p.tail, case p.axis when 'job' then e.edge
                                                        else greatest(e.edge - 1, 0) end)
    from (
        select b.axis, b.segment,
               case when b.axis = 'job' then _move_edges.head / batchq._chunk_size('job')
                    else batchq._last_chunk(b.axis, b.segment) end as edge
        from batchq.tally_part b
    ) e
    where p.axis = e.axis and p.segment = e.segment and p.edge <> e.edge;
end
$_move_edges$;
