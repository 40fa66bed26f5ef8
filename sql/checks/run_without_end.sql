-- Runs that are marked as finished and have no end, or the other way round.
SELECT run_id::text, kind, status, started_at, finished_at
FROM {runs}
WHERE (status = 'running') <> (finished_at IS NULL);
