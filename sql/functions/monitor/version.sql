-- What is installed.
create or replace function batchq.version()
returns batchq.installed_version
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $version$
declare
    v_version batchq.installed_version;
begin
    select '0.1.0', max(m.migration), (select i.installed_at from batchq.installation i)
    into v_version
    from batchq.migration m;
    return v_version;
end
$version$;

comment on function batchq.version is $comment$
What is installed in this database.

Returns: version of the functions, number of the newest migration, time of the first install.
Role: batchq_monitor, and every other role of batchq.
Example: select version, migration from batchq.version()
$comment$;
