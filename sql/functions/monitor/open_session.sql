-- Signing in: a token is good as for find_token, and a session ends with it at the latest.
create or replace function batchq.open_session(
    token_hash bytea,
    session_hash bytea,
    lasts interval default '12 hours'
)
returns timestamptz
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $open_session$
declare
    v_now constant timestamptz := batchq._now();
    v_ends_at timestamptz;
begin
    if not coalesce(octet_length(session_hash) = 32, false) then
        perform batchq._raise('JQ001',
            format('invalid session_hash: %s',
                   coalesce(octet_length(session_hash) || ' bytes', 'null')),
            'give the SHA-256 of a secret, 32 bytes');
    elsif not coalesce(batchq._span_fits(lasts, '1 minute', '30 days'), false) then
        perform batchq._raise('JQ001',
            format('invalid lasts: %s', coalesce(lasts::text, 'null')),
            'give 1 minute to 30 days');
    end if;
    insert into batchq.session as s (token_id, created_at, expires_at, hash)
    select t.token_id, v_now, least(v_now + batchq._exact(lasts), t.expires_at), session_hash
    from batchq.find_token(token_hash) t
    on conflict on constraint session_pkey do nothing
    returning s.expires_at into v_ends_at;
    if not found and exists (select from batchq.session s where s.hash = session_hash) then
        perform batchq._raise('JQ001', 'there is a session of this hash',
            'make a new secret for each session');
    end if;
    return v_ends_at;
end
$open_session$;

comment on function batchq.open_session is $comment$
Sign in: open a session of a token, for people whose browser is not to hold the token itself. The
session's secret is the caller's to make; the database knows its hash only.

token_hash: SHA-256 of the token's secret. session_hash: SHA-256 of the session's secret, which is
new, 32 bytes. lasts: 1 minute to 30 days.

Returns: when the session ends, not later than its token; null if the token is not good.
Errors: JQ001 lasts or session_hash is out of its bounds, or there is such a session.
Role: batchq_monitor, and every other role of batchq.
Example: select batchq.open_session(sha256('bq_secret'), sha256('another'), '1 h')
$comment$;
