-- Settings of one group, where it differs from the others of its queue.
create or replace function batchq.set_group(
    queue text,
    group_key text,
    group_limit integer default null,
    weight integer default null,
    reset boolean default false
)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $set_group$
begin
    perform batchq._check_lease(queue);
    perform batchq._check_options(
        null, null, null, null, null, null, null, null, null, null, null, null, null, null,
        group_key);
    if group_key is null
       or not coalesce(group_limit between 0 and 10000, true)
       or not coalesce(weight between 1 and 1000, true)
    then
        perform batchq._raise('JQ001',
            format('invalid group_key %s, group_limit %s or weight %s',
                   coalesce(quote_literal(group_key), 'null'), group_limit, weight),
            'give a group_key, a group_limit of 0 to 10,000, a weight of 1 to 1,000');
    end if;
    insert into batchq.group_setting as g (queue, group_key, group_limit, weight)
    values (set_group.queue, set_group.group_key, set_group.group_limit, set_group.weight)
    on conflict on constraint group_setting_pkey do update
    set group_limit = coalesce(excluded.group_limit, case when not reset then g.group_limit end),
        weight = coalesce(excluded.weight, case when not reset then g.weight end);
    perform pg_current_xact_id(), batchq._add_line(queue, 'round', 0::smallint);
    insert into batchq.call (due_at, queue, group_key)
    values (batchq._now(), set_group.queue, set_group.group_key);
    perform batchq._audit('set_group', 'queue ' || queue, jsonb_build_object(
        'group_key', group_key, 'group_limit', group_limit, 'weight', weight,
        'reset', nullif(coalesce(reset, false), false)));
    perform batchq._ring(queue);
end
$set_group$;

comment on function batchq.set_group is $comment$
Set what is different for one group of a queue. A value that is null stays as it was; reset first
sets both to none. It counts where the queue limits its groups: see set_queue.

queue, group_key: 1 to 255 characters. group_limit: how many jobs of the group may be ready or
running at once, 0 to 10,000, in place of the queue's; 0 stops the group. weight: 1 to 1,000, 1 if
not set: where groups take turns (set_queue: fair) and there is no group_limit, one of weight 3 has
three times as many jobs a round.

Errors: JQ001 a value is out of its bounds.
Role: batchq_operator.
Example: select batchq.set_group('mail', 'customer-7', weight => 5)
$comment$;
