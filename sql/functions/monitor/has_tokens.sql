-- An expired token counts: that the last one runs out must not open an API to everybody.
create or replace function batchq.has_tokens()
returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $has_tokens$
begin
    return exists (select from batchq.token t where t.revoked_at is null);
end
$has_tokens$;

comment on function batchq.has_tokens is $comment$
Whether there is any token of the HTTP API that is not revoked. One that has expired counts.

Returns: true or false.
Role: batchq_monitor, and every other role of batchq.
Example: select batchq.has_tokens()
$comment$;
