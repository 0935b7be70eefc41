/*
 * Take permits of a queue out, oldest first, at most wanted; rows that others are taking are
 * skipped. at: rate permits must be due by then. Returns how many there were.
 *
 * A row may hold one permit or a sixteenth of the limit (most is the limit), so few rows are
 * tried first and then ever more; what was too much is put back, to be taken no sooner than it
 * was to. The last look starts at the hard floor, so that "none" is exact.
 */
create or replace function batchq._take_permits(
    queue text,
    line text,
    wanted bigint,
    at timestamptz,
    most integer default 1
)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $_take_permits$
declare
    v_till constant bigint := case _take_permits.line
        when 'rate' then batchq._micros(_take_permits.at) else 9223372036854775807 end;
    v_floor record;
    v_from bigint;
    v_rows integer;
    v_tries integer := 1;
    v_found bigint;
    v_sum bigint;
    v_last bigint;
    v_got bigint := 0::bigint;
begin
    select f.floor, f.hard_floor, f.sweep_after into v_floor
    from batchq.floor f
    where f.queue = _take_permits.queue and f.line = _take_permits.line
    order by f.generation desc
    limit 1;
    if v_floor.sweep_after <= _take_permits.at then
        perform batchq._sweep(_take_permits.queue, _take_permits.line, 0::smallint);
    end if;
    v_from := coalesce(v_floor.floor, 0);
    loop
        v_rows := least(
            v_tries * greatest((_take_permits.wanted - v_got) / batchq._permit_size(most), 1),
            1000)::integer;
        with taken as materialized (
            select p.ctid
            from batchq.permit p
            where p.queue = _take_permits.queue and p.line = _take_permits.line
              and p.place >= v_from and p.place <= v_till
            order by p.place
            limit v_rows
            for update skip locked
        ),
        gone as (
            delete from batchq.permit p using taken t where p.ctid = t.ctid
            returning p.n, p.place
        )
        select count(*), coalesce(sum(g.n), 0), max(g.place) into v_found, v_sum, v_last
        from gone g;
        v_got := v_got + v_sum;
        exit when v_got >= _take_permits.wanted;
        if v_found < v_rows then
            exit when v_from = coalesce(v_floor.hard_floor, 0);
            v_from := coalesce(v_floor.hard_floor, 0);
        else
            v_tries := least(v_tries * 2, 1000);
        end if;
    end loop;
    perform batchq._give_permits(
        _take_permits.queue, _take_permits.line, v_got - _take_permits.wanted,
        case _take_permits.line
            when 'rate'
            then greatest(batchq._at_once(_take_permits.at), batchq._instant(v_last)) end);
    return least(v_got, _take_permits.wanted);
end
$_take_permits$;
