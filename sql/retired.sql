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
