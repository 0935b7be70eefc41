-- A token is written once. Two that are made at once under one name: the index decides.
create or replace function batchq.create_token(
    name text,
    secret_hash bytea,
    scopes text[],
    queues text[] default null,
    expires_at timestamptz default null
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $create_token$
declare
    v_token_id bigint;
begin
    perform batchq._check_token(name, secret_hash, scopes, queues, expires_at);
    insert into batchq.token as t (created_at, expires_at, name, hash, scopes, queues)
    values (batchq._now(), create_token.expires_at, create_token.name, create_token.secret_hash,
            create_token.scopes, create_token.queues)
    on conflict do nothing
    returning t.token_id into v_token_id;
    if not found then
        perform batchq._raise('JQ001',
            format('there is a token %s, or one of this hash', quote_literal(left(name, 80))),
            'choose another name, or revoke that token first');
    end if;
    perform batchq._audit('create_token', 'token ' || name, jsonb_build_object(
        'scopes', to_jsonb(scopes), 'queues', to_jsonb(queues), 'expires_at', expires_at));
    return v_token_id;
end
$create_token$;

comment on function batchq.create_token is $comment$
Make a token for the HTTP API. Its secret is the caller's to make and to hand over: the database
knows the hash only.

name: 1 to 200 characters; no other token that is not revoked has it. secret_hash: SHA-256 of the
secret, 32 bytes. scopes: some of produce, work, operate, monitor. queues: the only ones it is for,
1 to 1,000 names; null for all. expires_at: in the future; null for never.

Returns: its token_id.
Errors: JQ001 a value is out of its bounds, or the name or hash is taken.
Role: batchq_operator.
Example: select batchq.create_token('shop', sha256('bq_secret'), '{produce}', '{mail}')
$comment$;
