/*
 * What a look at a chunk counts: rows whose transaction is over by the mark and was not by the
 * chunk's. latest: the full xid from which age() counts.
 *
 * The xid of a row has 32 bits and comes round: one that was counted long ago may look new again,
 * so rows of partitions that are more than a day older than the last look are left alone. Stable:
 * to be called by the statement that reads tally_gone, in whose snapshot it looks.
 */
create or replace function batchq._tally_rows(
    visit batchq.tally_visit,
    mark batchq.tally_mark,
    latest bigint
)
returns setof batchq.tally_row
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $_tally_rows$
begin
    case (visit).axis
        when 'job' then
            return query select c.* from batchq._tally_jobs(visit, mark, latest) c;
        when 'outcome' then
            return query select c.* from batchq._tally_outcomes(visit, mark, latest) c;
        when 'error' then
            return query select c.* from batchq._tally_errors(visit, mark, latest) c;
    end case;
end
$_tally_rows$;
