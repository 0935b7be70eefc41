-- Write down that a person cancelled a job. Programs do it by the thousand, as a part of their
-- work, and that is no operator's action: so only where an actor was named by act_as.
create or replace function batchq._audit_cancel(job_id bigint, reason text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_audit_cancel$
begin
    if nullif(current_setting('batchq.actor', true), '') is not null then
        perform batchq._audit('cancel', 'job ' || job_id,
                              jsonb_build_object('reason', left(reason, 1000)));
    end if;
end
$_audit_cancel$;
