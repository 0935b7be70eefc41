/*
 * Removes batchq from this database, with every job. The roles belong to the whole server and
 * stay: another database may use them.
 */
\set ON_ERROR_STOP on
begin;
drop schema if exists batchq cascade;
commit;
