-- One probe of an index: it is asked for every caller of the API, every few seconds.
create or replace function batchq.find_token(secret_hash bytea)
returns setof batchq.token_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $find_token$
begin
    return query
    select t.token_id, t.name::text, t.scopes, t.queues, t.created_at, t.expires_at, t.revoked_at
    from batchq.token t
    where t.hash = find_token.secret_hash and t.revoked_at is null
      and (t.expires_at is null or t.expires_at > batchq._now());
end
$find_token$;

comment on function batchq.find_token is $comment$
The token of a secret, if it is good: neither revoked nor expired by the database's clock.

secret_hash: SHA-256 of the secret.

Returns: one token_info row, or none.
Role: batchq_monitor, and every other role of batchq.
Example: select name, scopes, queues from batchq.find_token(sha256('bq_secret'))
$comment$;
