-- Two probes of indexes, for each request of a browser, every few seconds.
create or replace function batchq.find_session(secret_hash bytea)
returns setof batchq.session_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $find_session$
begin
    return query
    select t.token_id, t.name::text, t.scopes, t.queues, t.created_at, t.expires_at, t.revoked_at,
           s.expires_at
    from batchq.session s
    join batchq.token t on t.token_id = s.token_id
    where s.hash = find_session.secret_hash and s.expires_at > batchq._now()
      and t.revoked_at is null and (t.expires_at is null or t.expires_at > batchq._now());
end
$find_session$;

comment on function batchq.find_session is $comment$
The token a session was opened with, if both are good: a session ends when its time is over, by
close_session, and with its token.

secret_hash: SHA-256 of the session's secret.

Returns: one session_info row, or none: token_info, and ends_at, when the session ends.
Role: batchq_monitor, and every other role of batchq.
Example: select name, scopes, ends_at from batchq.find_session(sha256('another'))
$comment$;
