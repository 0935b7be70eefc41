/*
 * Whether a floor row's mark may become its hard floor. mark_xid is the xid that the mark waits
 * for, null where it is the xmin of the row itself. One that is newer than the row comes from
 * another cluster, by dump and restore: there the row's own xmin counts.
 */
create or replace function batchq._mark_passed(mark_xid bigint, row_xid bigint)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $_mark_passed$
declare
    v_oldest constant bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
begin
    return batchq._xid_passed(
        case when _mark_passed.mark_xid is not null
                  and batchq._xid_passed(_mark_passed.mark_xid, _mark_passed.row_xid)
             then _mark_passed.mark_xid
             else _mark_passed.row_xid
        end,
        v_oldest);
end
$_mark_passed$;
