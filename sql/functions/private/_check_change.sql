-- Raise JQ001 unless set_job may give these values to a job.
create or replace function batchq._check_change(priority integer, run_at timestamptz)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_change$
begin
    if num_nonnulls(priority, run_at) = 0 then
        perform batchq._raise('JQ001', 'nothing to change', 'give priority, run_at or both');
    elsif priority not between -32768 and 32767 then
        perform batchq._raise('JQ001', format('invalid priority: %s', priority),
            'give an integer from -32768 to 32767, higher first');
    elsif run_at not between '0001-01-02 00:00:00+00' and '9999-12-30 00:00:00+00' then
        perform batchq._raise('JQ001', format('invalid run_at: %s', run_at),
            'give a time of the years 1 to 9999; one that has passed is now');
    end if;
end
$_check_change$;
