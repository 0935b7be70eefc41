-- The filters of list_jobs that only the job's own row can answer; null: not asked for.
create or replace function batchq._matches(
    job_kind text,
    job_created_at timestamptz,
    kind text,
    created_after timestamptz,
    created_before timestamptz
)
returns boolean
language sql
immutable
return (kind is null or job_kind = kind)
   and (created_after is null or job_created_at >= created_after)
   and (created_before is null or job_created_at < created_before);
