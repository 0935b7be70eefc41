/*
 * Claim a dedupe key for a job that is about to exist. Returns the id of the job that holds it:
 * the given one if it is new, else the first one.
 *
 * The primary key of dedupe decides; looking first only spares a wait. Whoever inserts the same
 * key at the same time waits for the first one to commit or roll back: the one place where an
 * enqueue waits for another transaction. A hold whose job is past the scope is taken over.
 */
create or replace function batchq._claim_key(
    queue text,
    dedupe_key text,
    job_id bigint,
    segment smallint,
    scope text,
    held_until timestamptz
)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_claim_key$
declare
    v_hold batchq.dedupe;
    v_state text;
begin
    loop
        select d.* into v_hold
        from batchq.dedupe d
        where d.queue = _claim_key.queue and d.dedupe_key = _claim_key.dedupe_key;
        if not found then
            insert into batchq.dedupe (queue, dedupe_key, job_id, segment, held_until)
            values (_claim_key.queue, _claim_key.dedupe_key, _claim_key.job_id,
                    _claim_key.segment, _claim_key.held_until)
            on conflict on constraint dedupe_pkey do nothing;
            exit when found;
            continue;
        end if;
        if v_hold.held_until > batchq._now() then
            return v_hold.job_id;
        end if;
        v_state := batchq._live_state(v_hold.job_id, v_hold.segment);
        if v_state in ('ready', 'scheduled', 'blocked')
           or (v_state = 'leased' and _claim_key.scope = 'unfinished')
        then
            return v_hold.job_id;
        end if;
        update batchq.dedupe d
        set job_id = _claim_key.job_id,
            segment = _claim_key.segment,
            held_until = _claim_key.held_until
        where d.queue = _claim_key.queue and d.dedupe_key = _claim_key.dedupe_key
          and d.job_id = v_hold.job_id;
        exit when found;
    end loop;
    return _claim_key.job_id;
end
$_claim_key$;
