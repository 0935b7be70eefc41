-- The manifest: psql runs it, and so does pybatchq.install. One transaction, one installer at a
-- time; a second run changes nothing.
\set ON_ERROR_STOP on
begin;
set local client_min_messages = warning;
set local lock_timeout = '10 s';
set local search_path = pg_catalog, pg_temp;
set local check_function_bodies = on;
\ir schema.sql

select not exists (select from batchq.migration where migration = 1) as pending_0001 \gset
\if :pending_0001
\ir migrations/0001_core.sql
\endif
select not exists (select from batchq.migration where migration = 2) as pending_0002 \gset
\if :pending_0002
\ir migrations/0002_workers.sql
\endif
select not exists (select from batchq.migration where migration = 3) as pending_0003 \gset
\if :pending_0003
\ir migrations/0003_api.sql
\endif
select not exists (select from batchq.migration where migration = 4) as pending_0004 \gset
\if :pending_0004
\ir migrations/0004_counters.sql
\endif
select not exists (select from batchq.migration where migration = 5) as pending_0005 \gset
\if :pending_0005
\ir migrations/0005_flow.sql
\endif
select not exists (select from batchq.migration where migration = 6) as pending_0006 \gset
\if :pending_0006
\ir migrations/0006_reads.sql
\endif

\ir retired.sql
\ir functions/private/_now.sql
\ir functions/private/_next_place.sql
\ir functions/private/_segment.sql
\ir functions/private/_micros.sql
\ir functions/private/_exact.sql
\ir functions/private/_instant.sql
\ir functions/private/_bell.sql
\ir functions/private/_parked.sql
\ir functions/private/_xid_passed.sql
\ir functions/private/_is_free.sql
\ir functions/private/_name_fits.sql
\ir functions/private/_size.sql
\ir functions/private/_matches.sql
\ir functions/private/_job_fields.sql
\ir functions/private/_job_fits.sql
\ir functions/private/_span_fits.sql
\ir functions/private/_options_fit.sql
\ir functions/private/_period.sql
\ir functions/private/_permit_size.sql
\ir functions/private/_ties_of_start.sql
\ir functions/private/_fit_error.sql
\ir functions/private/_backoff_bound.sql
\ir functions/private/_chunk_size.sql
\ir functions/private/_chunk_of.sql
\ir functions/private/_is_new.sql
\ir functions/private/_add_counts.sql
\ir functions/private/_add_lanes.sql
\ir functions/private/_add_line.sql
\ir functions/private/_admit.sql
\ir functions/private/_age.sql
\ir functions/private/_backoff_wait.sql
\ir functions/private/_block.sql
\ir functions/private/_block_new.sql
\ir functions/private/_block_one.sql
\ir functions/private/_bring.sql
\ir functions/private/_cancel_found.sql
\ir functions/private/_cancellable.sql
\ir functions/private/_check_beat.sql
\ir functions/private/_check_cancel.sql
\ir functions/private/_check_floors.sql
\ir functions/private/_check_groups.sql
\ir functions/private/_check_lease.sql
\ir functions/private/_check_limits.sql
\ir functions/private/_check_list.sql
\ir functions/private/_check_lists.sql
\ir functions/private/_check_names.sql
\ir functions/private/_check_options.sql
\ir functions/private/_check_queue_exists.sql
\ir functions/private/_check_permits.sql
\ir functions/private/_check_queues.sql
\ir functions/private/_check_redrive.sql
\ir functions/private/_check_token.sql
\ir functions/private/_check_waits.sql
\ir functions/private/_choose_dead.sql
\ir functions/private/_choose_outcomes.sql
\ir functions/private/_claim_key.sql
\ir functions/private/_claim_keys.sql
\ir functions/private/_count_rows.sql
\ir functions/private/_depth.sql
\ir functions/private/_find_pending.sql
\ir functions/private/_fit_depth.sql
\ir functions/private/_fit_limits.sql
\ir functions/private/_fit_permits.sql
\ir functions/private/_give_back_room.sql
\ir functions/private/_give_permits.sql
\ir functions/private/_group_keys.sql
\ir functions/private/_hard_floor.sql
\ir functions/private/_is_called.sql
\ir functions/private/_is_paced.sql
\ir functions/private/_kept_ties.sql
\ir functions/private/_lease_limited.sql
\ir functions/private/_next_chance.sql
\ir functions/private/_pay_slots.sql
\ir functions/private/_queue_full.sql
\ir functions/private/_rank.sql
\ir functions/private/_ready_depth.sql
\ir functions/private/_rooms.sql
\ir functions/private/_run_at.sql
\ir functions/private/_seats.sql
\ir functions/private/_take_calls.sql
\ir functions/private/_take_found.sql
\ir functions/private/_take_permits.sql
\ir functions/private/_take_room.sql
\ir functions/private/_take_turns.sql
\ir functions/private/_unseen_queues.sql
\ir functions/private/_dead_letters.sql
\ir functions/private/_discover.sql
\ir functions/private/_drop_floors.sql
\ir functions/private/_drop_keys.sql
\ir functions/private/_drop_lanes.sql
\ir functions/private/_drop_tokens.sql
\ir functions/private/_drop_workers.sql
\ir functions/private/_end_attempts.sql
\ir functions/private/_error_end.sql
\ir functions/private/_error_group.sql
\ir functions/private/_forget.sql
\ir functions/private/_hand_back.sql
\ir functions/private/_head.sql
\ir functions/private/_id_at.sql
\ir functions/private/_insert_jobs.sql
\ir functions/private/_is_due.sql
\ir functions/private/_job_not_found.sql
\ir functions/private/_lanes.sql
\ir functions/private/_last_chunk.sql
\ir functions/private/_latest_xid.sql
\ir functions/private/_lease_lost.sql
\ir functions/private/_list_candidates.sql
\ir functions/private/_list_few.sql
\ir functions/private/_list_sources.sql
\ir functions/private/_left_out.sql
\ir functions/private/_live_state.sql
\ir functions/private/_lock_leases.sql
\ir functions/private/_look_at_parts.sql
\ir functions/private/_lowest.sql
\ir functions/private/_lowest_free.sql
\ir functions/private/_mark_passed.sql
\ir functions/private/_move_edges.sql
\ir functions/private/_note_purged.sql
\ir functions/private/_note_redriven.sql
\ir functions/private/_oldest_ready.sql
\ir functions/private/_place_of.sql
\ir functions/private/_promote.sql
\ir functions/private/_promote_all.sql
\ir functions/private/_queue_names.sql
\ir functions/private/_raise.sql
\ir functions/private/_refuse_item.sql
\ir functions/private/_refuse_job.sql
\ir functions/private/_release_keys.sql
\ir functions/private/_replace_duplicates.sql
\ir functions/private/_replace_pending.sql
\ir functions/private/_restart_tally.sql
\ir functions/private/_revive.sql
\ir functions/private/_ring.sql
\ir functions/private/_scan_history.sql
\ir functions/private/_scan_jobs.sql
\ir functions/private/_running.sql
\ir functions/private/_settled_before.sql
\ir functions/private/_state_of.sql
\ir functions/private/_states_of.sql
\ir functions/private/_sweep.sql
\ir functions/private/_tail_visits.sql
\ir functions/private/_take_pending.sql
\ir functions/private/_tally.sql
\ir functions/private/_tally_emptied.sql
\ir functions/private/_tally_errors.sql
\ir functions/private/_tally_jobs.sql
\ir functions/private/_tally_outcomes.sql
\ir functions/private/_tally_rows.sql
\ir functions/private/_turn_visits.sql
\ir functions/private/_unsettled.sql
\ir functions/private/_visits.sql
\ir functions/producer/cancel.sql
\ir functions/producer/enqueue.sql
\ir functions/producer/enqueue_many.sql
\ir functions/worker/assert_lease.sql
\ir functions/worker/beat_worker.sql
\ir functions/worker/bell_pending.sql
\ir functions/worker/complete.sql
\ir functions/worker/complete_many.sql
\ir functions/worker/drop_worker.sql
\ir functions/worker/extend.sql
\ir functions/worker/fail.sql
\ir functions/worker/fail_many.sql
\ir functions/worker/lease.sql
\ir functions/worker/lease_from.sql
\ir functions/worker/next_due.sql
\ir functions/worker/park.sql
\ir functions/worker/progress.sql
\ir functions/worker/progress_many.sql
\ir functions/worker/release.sql
\ir functions/worker/release_many.sql
\ir functions/worker/settle_and_lease.sql
\ir functions/worker/snooze.sql
\ir functions/worker/snooze_many.sql
\ir functions/worker/unpark.sql
\ir functions/operator/cancel_many.sql
\ir functions/operator/create_token.sql
\ir functions/operator/list_tokens.sql
\ir functions/operator/maintain.sql
\ir functions/operator/pause.sql
\ir functions/operator/purge.sql
\ir functions/operator/reap.sql
\ir functions/operator/redrive.sql
\ir functions/operator/resume.sql
\ir functions/operator/revoke_token.sql
\ir functions/operator/set_group.sql
\ir functions/operator/set_queue.sql
\ir functions/private/_untie.sql
\ir functions/private/_write_jobs.sql
\ir views/jobs.sql
\ir functions/monitor/counters.sql
\ir functions/monitor/errors.sql
\ir functions/monitor/find_token.sql
\ir functions/monitor/get_job.sql
\ir functions/monitor/get_queue.sql
\ir functions/monitor/has_tokens.sql
\ir functions/monitor/job_id.sql
\ir functions/monitor/job_states.sql
\ir functions/monitor/job_uuid.sql
\ir functions/monitor/kind_counters.sql
\ir functions/monitor/list_errors.sql
\ir functions/monitor/list_groups.sql
\ir functions/monitor/list_jobs.sql
\ir functions/monitor/list_queues.sql
\ir functions/monitor/list_workers.sql
\ir functions/monitor/stats.sql
\ir functions/monitor/version.sql

\ir roles.sql
\ir grants.sql
commit;
