-- The states that a status and a state stand for together, null for all. Raise JQ001 for one that
-- is unknown.
create or replace function batchq._states_of(status text, state text)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $_states_of$
declare
    v_status constant text := case status when 'processing' then 'running' else status end;
begin
    if v_status not in ('pending', 'running', 'completed', 'failed', 'cancelled') then
        perform batchq._raise('JQ001',
            format('unknown status: %s', quote_literal(left(v_status, 80))),
            'give pending, running, completed, failed or cancelled');
    end if;
    if state not in ('scheduled', 'ready', 'blocked', 'leased', 'completed', 'failed', 'cancelled')
    then
        perform batchq._raise('JQ001', format('unknown state: %s', quote_literal(left(state, 80))),
            'give scheduled, ready, blocked, leased, completed, failed or cancelled');
    end if;
    if v_status is null and state is null then
        return null;
    end if;
    return array(
        select s.state
        from (values ('pending', 'scheduled'), ('pending', 'ready'), ('pending', 'blocked'),
                     ('running', 'leased'), ('completed', 'completed'), ('failed', 'failed'),
                     ('cancelled', 'cancelled')
             ) as s(status, state)
        where (v_status is null or s.status = v_status)
          and (_states_of.state is null or s.state = _states_of.state));
end
$_states_of$;
