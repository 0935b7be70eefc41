-- A setting of the transaction: it is gone when that ends, whatever becomes of it.
create or replace function batchq.act_as(actor text)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $act_as$
begin
    if not coalesce(char_length(actor) between 1 and 200, true) then
        perform batchq._raise('JQ001', format('invalid actor: %s', quote_literal(left(actor, 80))),
            'give 1 to 200 characters, or null for nobody');
    end if;
    perform set_config('batchq.actor', coalesce(actor, ''), true);
end
$act_as$;

comment on function batchq.act_as is $comment$
Say who acts, for the rest of this transaction: what operators' functions write down for list_audit
bears that name. No right follows from it: it is a claim by whoever is connected, so the database's
user is written down too. For programs that act for many people, like the HTTP API.

actor: 1 to 200 characters; null for nobody but the database's user.

Errors: JQ001 the name is out of its bounds.
Role: batchq_monitor, and every other role of batchq.
Example: select batchq.act_as('ann')
$comment$;
