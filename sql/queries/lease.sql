-- name: take_leases
-- Take the banks that are free, expired or already ours; the fencing token grows with each new holder.
INSERT INTO {leases} AS l (bank, holder, run_id, fencing, acquired_at, heartbeat_at, expires_at)
SELECT bank, %(holder)s, %(run_id)s, 1, clock_timestamp(), clock_timestamp(),
       clock_timestamp() + make_interval(secs => %(seconds)s)
FROM unnest(%(banks)s::text[]) AS t(bank)
ORDER BY bank
ON CONFLICT (bank) DO UPDATE
   SET holder = excluded.holder, run_id = excluded.run_id, fencing = l.fencing + 1,
       acquired_at = excluded.acquired_at, heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at
 WHERE l.expires_at <= clock_timestamp()
RETURNING bank, fencing;

-- name: patience
-- Wait briefly for the rows of leases: a write transaction of their holder may have locked them.
SELECT pg_catalog.set_config('lock_timeout', %(milliseconds)s, true);

-- name: lease_holders
-- Who holds which of these banks, since when and until when; times as text, as a hand may have written 'infinity'.
SELECT bank, holder, run_id::text AS run_id, date_trunc('second', acquired_at)::text AS acquired_at,
       date_trunc('second', expires_at)::text AS expires_at
FROM {leases}
WHERE bank = ANY(%(banks)s::text[]) AND expires_at > clock_timestamp()
ORDER BY bank;

-- name: extend_leases
-- Heartbeat: push the expiry of the leases that are still ours.
UPDATE {leases}
   SET heartbeat_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
 WHERE run_id = %(run_id)s AND bank = ANY(%(banks)s::text[]) AND expires_at > clock_timestamp();

-- name: check_leases
-- Inside a write transaction: rows of leases that are still ours, locked against a takeover until commit.
SELECT l.bank
FROM unnest(%(banks)s::text[], %(tokens)s::bigint[]) AS t(bank, fencing)
JOIN {leases} l USING (bank, fencing)
WHERE l.run_id = %(run_id)s AND l.expires_at > clock_timestamp()
FOR SHARE OF l;

-- name: release_leases
-- Let go at once; the row stays, so that its fencing token never goes back.
UPDATE {leases} SET expires_at = clock_timestamp()
 WHERE run_id = %(run_id)s AND bank = ANY(%(banks)s::text[]) AND expires_at > clock_timestamp();
