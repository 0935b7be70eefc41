-- That other jobs go first, counted up to a bound: for explain_job.
create or replace function batchq._behind_gate(gate text, jobs bigint, bound integer, whose text)
returns batchq.gate
language sql
immutable
return row(
    gate, true,
    case when jobs > bound then 'more than ' || bound else jobs::text end
    || case jobs when 1 then ' job ' else ' jobs ' end || whose
    || case jobs when 1 then ' goes first' else ' go first' end,
    null::timestamptz,
    jsonb_build_object('jobs', least(jobs, bound), 'is_exact', jobs <= bound))::batchq.gate;
