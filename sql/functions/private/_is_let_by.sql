-- Whether a ready job of a lane may start while breakers are open.
create or replace function batchq._is_let_by(
    lane batchq.held_lane,
    pos bigint,
    job_id bigint,
    segment smallint
)
returns boolean
language sql
stable
return pos <= (lane).upto
       and (job_id = any((lane).probes)
            or batchq._kind_of(job_id, segment) <> all((lane).kinds));
