-- Raise JQ001 unless create_token may take these values.
create or replace function batchq._check_token(
    name text,
    secret_hash bytea,
    scopes text[],
    queues text[],
    expires_at timestamptz
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_token$
begin
    if not coalesce(char_length(name) between 1 and 200, false) then
        perform batchq._raise('JQ001',
            format('invalid name: %s', coalesce(quote_literal(left(name, 80)), 'null')),
            'give 1 to 200 characters');
    end if;
    if not coalesce(octet_length(secret_hash) = 32, false) then
        perform batchq._raise('JQ001',
            format('invalid secret_hash: %s',
                   coalesce(octet_length(secret_hash) || ' bytes', 'null')),
            'give the SHA-256 of the secret, 32 bytes');
    end if;
    perform batchq._check_list(scopes);
    if not coalesce(cardinality(scopes) between 1 and 4
                    and scopes <@ array['produce', 'work', 'operate', 'monitor'], false) then
        perform batchq._raise('JQ001',
            format('invalid scopes: %s', coalesce(quote_literal(left(scopes::text, 80)), 'null')),
            'give some of produce, work, operate, monitor');
    end if;
    if queues is not null then
        perform batchq._check_names('queues', queues);
        if cardinality(queues) = 0 then
            perform batchq._raise('JQ001', 'invalid queues: none at all',
                'name a queue; null is for all queues');
        end if;
    end if;
    if expires_at <= batchq._now() then
        perform batchq._raise('JQ001', format('invalid expires_at: %s', expires_at),
            'give a time in the future');
    end if;
end
$_check_token$;
