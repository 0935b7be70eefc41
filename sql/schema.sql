/*
 * The schema and the record of its migrations. A schema of this name that is not ours stays
 * untouched.
 */
do $schema$
begin
    perform pg_advisory_xact_lock(1651572489);   -- one installer at a time
    if current_setting('server_version_num')::integer < 150000 then
        raise exception 'batchq needs PostgreSQL 15 or newer, this is %',
                        current_setting('server_version')
            using errcode = 'feature_not_supported', hint = 'upgrade the server first';
    end if;
    if to_regnamespace('batchq') is not null and to_regclass('batchq.migration') is null then
        raise exception 'schema "batchq" exists and was not made by batchq'
            using errcode = 'duplicate_schema',
                  hint = 'rename or drop that schema, then install again';
    end if;
end
$schema$;

create schema if not exists batchq;
create table if not exists batchq.migration (
    migration integer not null,
    name text not null,
    applied_at timestamptz not null default clock_timestamp(),
    constraint migration_pkey primary key (migration)
);
comment on schema batchq is 'batchq: a durable job queue. Call its functions; tables are private.';
comment on table batchq.migration is 'Migrations that were applied, each by itself.';
