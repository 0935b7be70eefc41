/*
 * Who may call what. create or replace keeps old grants, so everything is taken away first. Default
 * privileges of a schema cannot take away what PUBLIC has by default: a function added by hand is
 * closed by the next installation.
 * A folder is a role; monitor's functions are for all four. maintain and reap are anybody's who
 * works, as a worker keeps the queues in order. Who has tokens, and what operators did, is for
 * those who run or watch.
 */
revoke all on schema batchq from public;
revoke all on all tables in schema batchq from public;
revoke all on all sequences in schema batchq from public;
revoke all on all routines in schema batchq from public;

do $grants$
declare
    v_grant record;
begin
    for v_grant in
        select g.role_name, g.functions
        from (values
            ('batchq_producer', array[
                'cancel', 'enqueue', 'enqueue_many']),
            ('batchq_worker', array[
                'assert_lease', 'beat_worker', 'bell_pending', 'complete', 'complete_many',
                'drop_worker', 'extend', 'fail', 'fail_many', 'lease', 'lease_from', 'next_due',
                'park', 'progress', 'progress_many', 'release', 'release_many',
                'settle_and_lease', 'snooze', 'snooze_many', 'unpark',
                'maintain', 'reap']),
            ('batchq_operator', array[
                'cancel_many', 'create_token', 'drain_worker', 'list_audit', 'list_tokens',
                'maintain', 'pause', 'purge', 'reap', 'redrive', 'reset_breaker', 'resume',
                'revoke_token', 'set_group', 'set_job', 'set_queue']),
            ('batchq_monitor', array['list_audit', 'list_tokens'])
        ) as g(role_name, functions)
        join pg_roles r on r.rolname = g.role_name
    loop
        execute format('revoke all on all tables in schema batchq from %1$I;'
                       'revoke all on all sequences in schema batchq from %1$I;'
                       'revoke all on all routines in schema batchq from %1$I;'
                       'grant usage on schema batchq to %1$I', v_grant.role_name);
        execute (
            select string_agg(format('grant execute on function %s to %I', p.oid::regprocedure,
                                     v_grant.role_name), ';')
            from pg_proc p
            where p.pronamespace = 'batchq'::regnamespace
              and (p.proname = any(v_grant.functions) or p.proname = any(array[
                'act_as', 'close_session', 'counters', 'errors', 'explain_job', 'explain_queue',
                'find_session', 'find_token', 'get_job', 'get_queue', 'has_tokens', 'job_id',
                'job_states', 'job_uuid', 'kind_counters', 'list_alerts', 'list_breakers',
                'list_errors', 'list_groups', 'list_jobs', 'list_queues', 'list_workers', 'live',
                'open_session', 'peek_lease', 'queue_rates', 'queue_trends', 'stats', 'throughput',
                'version'])));
        if v_grant.role_name = 'batchq_producer' then
            execute 'grant insert on batchq.jobs to batchq_producer';
        elsif v_grant.role_name in ('batchq_operator', 'batchq_monitor') then
            execute format('grant select on batchq.jobs to %I', v_grant.role_name);
        end if;
    end loop;
end
$grants$;
