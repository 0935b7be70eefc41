-- What an operator should know, the worst first, at most 100: for list_alerts and live.
create or replace function batchq._alerts(depths batchq.queue_stats[], at timestamptz)
returns setof batchq.alert
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $_alerts$
begin
    return query
    select a.*
    from (select w.* from batchq._work_alerts(depths, _alerts.at) w
          union all
          select q.* from batchq._queue_alerts(depths, _alerts.at) q
          union all
          select g.gate, 'warning', null::text,
                 coalesce(g.data ->> 'xact_start', g.data ->> 'last_at')::timestamptz, g.says,
                 g.data
          from batchq._upkeep_gates(_alerts.at) g) a
    order by array_position('{critical,warning,notice}', a.severity), a.since nulls last, a.alert,
             a.queue
    limit 100;
end
$_alerts$;
