-- Raise JQ003 or JQ005 for a job that cannot be redriven. Pending ones pass: they wait already.
create or replace function batchq._check_redrive(job_ids bigint[])
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $_check_redrive$
declare
    v_job_id bigint;
    v_state text;
begin
    foreach v_job_id in array coalesce(_check_redrive.job_ids, '{}') loop
        v_state := batchq._state_of(v_job_id);
        if v_state is null then
            perform batchq._job_not_found(v_job_id);
        elsif v_state in ('leased', 'completed', 'cancelled') then
            perform batchq._raise('JQ005',
                format('job %s is %s', v_job_id, replace(v_state, 'leased', 'running')),
                'only a dead letter (status failed) can be redriven');
        end if;
    end loop;
end
$_check_redrive$;
