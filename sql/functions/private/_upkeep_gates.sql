-- What keeps the database from being kept in order: upkeep that nobody does, and a transaction that
-- is open for a minute or more, if the owner of the functions may see it. For explain_queue.
create or replace function batchq._upkeep_gates(at timestamptz)
returns setof batchq.gate
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $_upkeep_gates$
declare
    v_task record;
    v_old record;
begin
    select u.task, u.last_at into v_task
    from batchq.upkeep u
    where u.next_at < _upkeep_gates.at - interval '60 s'
    order by u.next_at, u.task
    limit 1;
    if found then
        return query
        select 'upkeep', false,
               format('upkeep is overdue (%s%s): run a worker, or batchq.maintain()', v_task.task,
                      coalesce(', last done at ' || batchq._stamp(v_task.last_at),
                               ' was never done')),
               null::timestamptz,
               jsonb_build_object('task', v_task.task, 'last_at', v_task.last_at);
    end if;
    select a.pid, a.xact_start, a.usename, a.application_name, a.state into v_old
    from pg_stat_activity a
    where a.datname = current_database() and a.backend_xmin is not null
      and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
      and a.xact_start < _upkeep_gates.at - interval '60 s'
    order by a.xact_start
    limit 1;
    if found then
        return query
        select 'cleanup', false,
               format('a transaction is open since %s (pid %s, %s): nothing that went since can be'
                      ' cleaned up', batchq._stamp(v_old.xact_start), v_old.pid, v_old.usename),
               null::timestamptz,
               jsonb_build_object('pid', v_old.pid, 'xact_start', v_old.xact_start, 'user',
                                  v_old.usename, 'application', v_old.application_name,
                                  'state', v_old.state);
    end if;
end
$_upkeep_gates$;
