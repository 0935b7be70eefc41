-- A revoked token is kept for a while, for people to look at; its name is free at once.
create or replace function batchq.revoke_token(name text)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $revoke_token$
begin
    update batchq.token t
    set revoked_at = batchq._now()
    where t.name = revoke_token.name and t.revoked_at is null;
    if not found then
        return false;
    end if;
    perform batchq._audit('revoke_token', 'token ' || name, null);
    return true;
end
$revoke_token$;

comment on function batchq.revoke_token is $comment$
End a token of the HTTP API for good. A server that has just asked for it may take it for a few
seconds more. It is forgotten after 30 days.

name: as it was given to create_token.

Returns: true; false if there was none of this name.
Role: batchq_operator.
Example: select batchq.revoke_token('shop')
$comment$;
