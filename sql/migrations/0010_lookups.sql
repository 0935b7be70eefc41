/*
 * Of two indexes that cost the same the planner takes the younger one, and all cost the same on a
 * table that it takes for empty. So the index by job_id has to be the youngest of those that have
 * job_id in them: a job was looked for by reading all of scheduled_due, or of dead_queue, until
 * these tables were analysed with something in them. The tables are small; they are locked for as
 * long as that takes.
 */
create unique index scheduled_job on batchq.scheduled (job_id);
alter table batchq.scheduled drop constraint scheduled_pkey;
alter table batchq.scheduled add constraint scheduled_pkey primary key using index scheduled_job;

create unique index dead_job on batchq.dead (job_id);
alter table batchq.dead drop constraint dead_pkey;
alter table batchq.dead add constraint dead_pkey primary key using index dead_job;

insert into batchq.migration (migration, name) values (10, 'lookups');
