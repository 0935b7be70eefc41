/*
 * Four roles, one a folder of public functions. They belong to the whole server, so they may be
 * there already, and another database may be making them right now. Whoever installs without the
 * right to create roles works with the owner's rights alone.
 */
do $roles$
declare
    v_role text;
begin
    foreach v_role in array array['batchq_producer', 'batchq_worker', 'batchq_operator',
                                  'batchq_monitor'] loop
        if not exists (select from pg_roles r where r.rolname = v_role) then
            begin
                execute format('create role %I nologin', v_role);
            exception
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    raise notice 'role % was not created: no right to create roles', v_role
                        using hint = 'let an administrator create it and install again';
            end;
        end if;
    end loop;
end
$roles$;
