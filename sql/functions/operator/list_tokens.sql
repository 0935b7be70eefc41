-- Listing tokens, without their hashes. The table is small: it is read whole.
create or replace function batchq.list_tokens()
returns setof batchq.token_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $list_tokens$
begin
    return query
    select t.token_id, t.name::text, t.scopes, t.queues, t.created_at, t.expires_at, t.revoked_at
    from batchq.token t
    order by t.revoked_at desc nulls first, t.name, t.token_id;
end
$list_tokens$;

comment on function batchq.list_tokens is $comment$
Tokens of the HTTP API: those that are not revoked by name, also where they have expired; then those
that were revoked within the last 30 days.

Returns: token_info rows.
Role: batchq_operator, batchq_monitor.
Example: select name, scopes, expires_at from batchq.list_tokens() where revoked_at is null
$comment$;
