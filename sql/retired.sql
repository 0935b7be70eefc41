-- Signatures of earlier releases that are gone: drop function if exists batchq.name(types);
drop function if exists batchq.list_jobs(
    text, text, text, text, timestamptz, timestamptz, integer, bigint);
drop function if exists batchq._newest_jobs(
    text, text, text, timestamptz, timestamptz, integer, bigint);
drop function if exists batchq._newest_ready(
    text, text, timestamptz, timestamptz, integer, bigint);
drop function if exists batchq._count_ready(text, smallint, bigint);
drop function if exists batchq.cancel_many(
    bigint[], text, text, text, timestamptz, timestamptz, text, integer, boolean);
drop function if exists batchq.purge(
    bigint[], text, text, text, timestamptz, integer, boolean);
drop function if exists batchq.redrive(
    bigint[], text, text, timestamptz, timestamptz, integer, double precision, boolean);
drop function if exists batchq.redrive(
    bigint[], text, text, timestamptz, timestamptz, integer, double precision, boolean, text,
    bigint);
drop function if exists batchq._revive(bigint[], double precision);

-- 0008: beat_worker says whether the worker is to drain.
do $retired$
begin
    if exists (select from pg_proc p
               where p.pronamespace = 'batchq'::regnamespace and p.proname = 'beat_worker'
                 and p.prorettype = 'void'::regtype)
    then
        drop function batchq.beat_worker;
    end if;
end
$retired$;

-- 0005: enqueue and set_queue gained parameters; those of private functions that changed.
drop function if exists batchq.enqueue(
    text, jsonb, text, integer, timestamptz, interval, integer, interval, text, text, interval,
    text, text, interval, double precision, interval, text, jsonb);
drop function if exists batchq.set_queue(
    text, integer, interval, interval, text, interval, double precision, interval, text, boolean);
drop function if exists batchq._options_fit(
    timestamptz, interval, integer, interval, text, text, interval, text, text, interval,
    double precision, interval, text, jsonb);
drop function if exists batchq._check_options(
    timestamptz, interval, integer, interval, text, text, interval, text, text, interval,
    double precision, interval, text, jsonb, text);
