-- Signatures of earlier releases that are gone: drop function if exists batchq.name(types);

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
