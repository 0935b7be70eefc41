begin;
select plan(25);
\ir ../clock.psql

insert into batchq.ready (pos, job_id, segment, priority, attempt, ties, queue) values (10, -1, 0,
    0, 0, 0, 'q'), (20, -2, 0, 0, 0, 0, 'q'), (15, -3, 0, 1, 0, 0, 'q'),
    (12, -4, 0, 0, 0, 0, 'r');
select is(batchq._lowest('q', 'ready', 0::smallint, f, h), x,
    format('from %s to %s: %s', f, h, coalesce(x::text, 'none')))
from (values (0::bigint, 100::bigint, 10::bigint), (10, 100, 10), (11, 100, 20), (21, 100, null),
    (0, 10, null), (0, 11, 10), (11, 20, null)) v(f, h, x);
select is(batchq._lowest('q', 'ready', 1::smallint, 0, 100), 15::bigint, 'a lane is its own');
select is(batchq._lowest('r', 'ready', 0::smallint, 0, 100), 12::bigint, 'so is a queue');
select is(batchq._lowest_free('q', 'ready', 0::smallint, 0, 100), 10::bigint,
    '_lowest_free sees what nobody has locked');
insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, ties,
    queue) values (-1, batchq._instant(1000), t.now(), 0, 0, 0, 0, 'q'),
    (-2, batchq._instant(2000), t.now(), 0, 0, 0, 0, 'q');
select is(batchq._lowest('q', 'scheduled', 0::smallint, f, h), x,
    format('scheduled from %s to %s: %s', f, h, coalesce(x::text, 'none')))
from (values (0::bigint, 100000::bigint, 1000::bigint), (1000, 100000, 1000), (1001, 100000, 2000),
    (0, 1000, null), (2001, 100000, null)) v(f, h, x);
select is(batchq._lowest_free('q', 'scheduled', 0::smallint, 1001, 100000), 2000::bigint,
    '_lowest_free too');
insert into batchq.leased (job_id, lease_id, lease_until, reap_at, leased_at, segment, priority,
    attempt, ties, queue)
values (-1, 1, t.now(), batchq._instant(500), t.now(), 0, 0, 1, 0, 'q'),
    (-2, 2, t.now(), batchq._instant(700), t.now(), 0, 0, 1, 0, 'r');
select is(batchq._lowest('', 'leased', 0::smallint, 501, 100000), 700::bigint,
    'leased is one line for all queues');
select is(batchq._lowest_free('', 'leased', 0::smallint, 0, 100000), 500::bigint,
    'for _lowest_free too');
select is(batchq._instant(batchq._micros(i)), i,
    format('an instant is a place and back: %s', i at time zone 'UTC'))
    from unnest(array['1970-01-01 00:00:00+00', '2026-11-29 12:34:56.789012+00',
    '2254-12-31 23:59:59.999999+00', '1969-12-31 23:59:59.999999+00',
    '0001-01-02 00:00:00+00']::timestamptz[]) i;
select is(batchq._head('ready', t.now()), (select last_value from batchq.position),
    'the head of ready is the last place given');
select is(batchq._instant(batchq._head('scheduled', t.now())), t.now() - interval '1 s',
    'that of scheduled a second ago');

select * from finish();
rollback;
