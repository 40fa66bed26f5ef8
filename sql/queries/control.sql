-- name: look_at_run
-- What somebody has asked a run to do, and how far behind the slowest receiver of our WAL is (0 where there is none
-- or this role may not see it; on a standby nothing is written). The time that this takes is the server's latency.
SELECT (SELECT r.parameters->>'control' FROM {runs} r WHERE r.run_id = %(run_id)s) AS control,
       (SELECT coalesce(max(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(),
                            coalesce(s.replay_lsn, s.flush_lsn, s.write_lsn, s.sent_lsn))), 0)::bigint
        FROM pg_catalog.pg_stat_replication s) AS lag,
       clock_timestamp() AS now;

-- name: server_clock
-- The moment by the server's clock.
SELECT clock_timestamp();

-- name: control_runs
-- Ask running runs of a kind, or one of them, to pause, to go on, or to stop.
UPDATE {runs} r SET parameters = coalesce(r.parameters, '{{}}') || jsonb_build_object('control', %(word)s::text)
 WHERE r.status = 'running' AND r.kind = 'backfill' AND (%(run)s::text IS NULL OR r.run_id::text = %(run)s)
RETURNING r.run_id::text;

-- name: runs_of_flow
-- Runs of a Prefect flow run that nobody has closed.
SELECT r.run_id::text FROM {runs} r
WHERE r.status = 'running' AND r.parameters->>'flow_run' = %(flow_run)s;

-- name: release_run
-- Let go of every bank of a run whose process is gone; rows stay for their fencing tokens.
UPDATE {leases} SET expires_at = clock_timestamp()
 WHERE run_id = %(run_id)s AND expires_at > clock_timestamp();

-- name: close_run
-- End a run that its own process could not end; a summary that is there stays.
UPDATE {runs} SET status = 'failed', finished_at = now(), summary = coalesce(summary, %(summary)s)
 WHERE run_id = %(run_id)s AND status = 'running';
