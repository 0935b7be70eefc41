begin;
select plan(6);
\ir ../clock.psql

insert into batchq.tally_total (queue, kind) values ('q', 'a'), ('q', 'b');
create function t.counted(queue text, kind text, at text, n bigint, wait integer, run integer)
returns batchq.tally_row language sql as $$
    select row($1, $2, 1, $4, 0, 0, 0, 0, 0, ('2026-01-01 10:' || $3 || '+00')::timestamptz, $5, $6,
               case when $5 is not null then 0.5 end, 2)::batchq.tally_row
$$;
create table t.folded as select f.* from batchq._fold_counts(array[
    t.counted('q', 'a', '07', 2, 3, 5), t.counted('q', 'a', '07', 1, null, 4), t.counted('q', 'a', '08', 1, 3, 5),
    t.counted('q', 'b', '07', 4, 1, 29), t.counted('x', 'y', '07', 8, 1, 1)]) f;
create function t.told(span integer) returns text language sql as $$
    select string_agg(format('%s/%s %s: %s %s %s %s', f.queue, f.kind, to_char(f.at at time zone 'UTC', 'HH24:MI'),
                             f.enqueued, f.completed, f.waited, f.wait_s), ', ' order by f.queue, f.kind, f.at)
    from t.folded f where f.span is not distinct from $1
$$;
select is(t.told(1), '/ 10:07: 4 15 14 1.5, / 10:08: 1 1 1 0.5, q/ 10:07: 3 7 6 1, q/ 10:08: 1 1 1 0.5, '
    'q/a 10:07: 2 3 2 0.5, q/a 10:08: 1 1 1 0.5, q/b 10:07: 1 4 4 0.5', 'minutes by pair, queue and in all');
select is(t.told(60), '/ 10:00: 5 16 15 2, q/ 10:00: 4 8 7 1.5, q/a 10:00: 3 4 3 1, q/b 10:00: 1 4 4 0.5', 'so hours');
select is(t.told(null), '/ : 1 8 8 0.5, q/a : 3 4 3 1, q/b : 1 4 4 0.5', 'totals by pair, those without a row apart');
select is(f.waits[:6], '{0,0,3,3,3,3}', 'an element counts what took at most so long')
    from t.folded f where f.span = 60 and f.kind = 'a';
select is(f.runs[3:6], '{0,1,4,4}', 'of each time its own') from t.folded f where f.span = 60 and f.kind = 'a';
select is(f.runs[28], 0::bigint, 'what took longer than all is in none') from t.folded f where f.span = 60 and f.kind = 'b';

select * from finish();
rollback;
