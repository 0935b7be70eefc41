-- Signing out: the row goes, so the secret is good for nothing from the commit on.
create or replace function batchq.close_session(secret_hash bytea)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $close_session$
begin
    delete from batchq.session s where s.hash = close_session.secret_hash;
end
$close_session$;

comment on function batchq.close_session is $comment$
Sign out: end a session. One that has ended, or never was, is no error.

secret_hash: SHA-256 of the session's secret.

Role: batchq_monitor, and every other role of batchq.
Example: select batchq.close_session(sha256('another'))
$comment$;
