-- name: totals
SELECT count(*) AS n_units, count(DISTINCT bank_id) AS n_banks,
       count(DISTINCT room) FILTER (room <> 'general') AS n_rooms,
       count(*) FILTER (coalesce(room, 'general') = 'general') AS n_general,
       count(*) FILTER (room_source IS NOT NULL) AS n_filed,
       count(*) FILTER ('explicit' IN (room_source, hall_source, layer_source)) AS n_explicit,
       count(*) FILTER (layer = 0) AS n_critical,
       (SELECT count(*) FROM closets) AS n_closets,
       (SELECT count(DISTINCT unit_id) FROM closet_sources) AS n_condensed,
       (SELECT count(*) FROM tunnels) AS n_tunnels
FROM units;

-- name: rooms
-- Units of each room and hall; beyond the largest rooms all are one.
WITH largest AS (SELECT room FROM units GROUP BY room ORDER BY count(*) DESC, room LIMIT 40)
SELECT CASE WHEN room IS NULL THEN 'unset' WHEN room IN (FROM largest) THEN room ELSE 'other rooms' END AS room,
       coalesce(hall, 'unset') AS hall, count(*) AS n_units
FROM units
GROUP BY ALL
ORDER BY ALL;

-- name: flow
-- What the newest run that changed labels moved, room to room.
WITH newest AS (
    SELECT r.run_id FROM runs r SEMI JOIN changes c USING (run_id) WHERE r.kind <> 'undo'
    ORDER BY r.started_at DESC, r.run_id LIMIT 1
)
SELECT run_id, coalesce(old_room, 'unset') AS old_room, coalesce(room, 'unset') AS room, count(*) AS n_units
FROM changes
WHERE run_id IN (FROM newest)
GROUP BY ALL
ORDER BY n_units DESC, old_room, room;

-- name: growth
-- New units a week of the largest banks; the others together.
WITH largest AS (SELECT bank_id FROM banks ORDER BY n_units DESC, bank_id LIMIT 8)
SELECT CASE WHEN bank_id IN (FROM largest) THEN bank_id ELSE 'other banks' END AS bank, week, sum(n_new)::BIGINT AS n_new
FROM growth_by_week
GROUP BY ALL
ORDER BY ALL;

-- name: layers
WITH largest AS (SELECT bank_id FROM banks ORDER BY n_units DESC, bank_id LIMIT 15)
SELECT CASE WHEN bank_id IN (FROM largest) THEN bank_id ELSE 'other banks' END AS bank, layer, count(*) AS n_units
FROM units
GROUP BY ALL
ORDER BY ALL;

-- name: tunnels
SELECT bank_a, bank_b, sum(n_tunnels)::BIGINT AS n_tunnels, sum(n_explicit)::BIGINT AS n_explicit,
       string_agg(relationship || ' ' || n_tunnels, ', ' ORDER BY n_tunnels DESC, relationship) AS relationships
FROM tunnel_matrix
GROUP BY ALL
ORDER BY n_tunnels DESC, bank_a, bank_b
LIMIT 120;

-- name: closets
-- The largest closets of each bank and room in turn, so that none hides the others.
WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY bank_id, room ORDER BY n_sources DESC, closet_id) AS place FROM closets
)
SELECT closet_id, bank_id, room, hall, title, summary, status, model, n_sources, n_read
FROM ranked
ORDER BY place, n_sources DESC, closet_id
LIMIT 30;

-- name: sources
-- Sources of the closets named in the parameter, with their texts as far as the snapshot has them.
SELECT s.closet_id, s.unit_id, s.is_stale, left(u.text, 400) AS text, u.room, u.hall
FROM closet_sources s
LEFT JOIN units u USING (unit_id)
WHERE s.closet_id IN (SELECT unnest(?::VARCHAR[])) AND s.rank < 40
ORDER BY s.closet_id, s.rank;

-- name: runs
SELECT run_id, kind, status, started_at, finished_at, left(taxonomy_hash, 12) AS taxonomy_hash,
       (SELECT count(*) FROM changes c WHERE c.run_id = r.run_id) AS n_changes
FROM runs r
ORDER BY started_at DESC, run_id
LIMIT 15;

-- name: quality
SELECT * FROM quality ORDER BY n_units DESC, bank_id LIMIT 40;

-- name: languages
SELECT coalesce(language, 'none') AS language, count(*) AS n_units FROM units GROUP BY ALL ORDER BY n_units DESC, language;

-- name: silo_names
SELECT room, bank_id, n_units FROM silos LIMIT 5;

-- name: duplicates
SELECT count(*) AS n_clusters, coalesce(sum(n_units), 0)::BIGINT AS n_units, max(n_units) AS largest FROM near_duplicates;

-- name: stale
SELECT status, count(*) AS n_closets FROM stale_closets GROUP BY ALL ORDER BY ALL;

-- name: uncovered
-- Rooms over the closet threshold that no closet covers yet.
SELECT bank_id, room, n_units FROM rooms_over(?) WHERE n_closets = 0 AND room <> 'general' LIMIT 5;

-- name: unsupported
SELECT bank_id, n_unsupported, share FROM unsupported_languages WHERE share > 0.05 LIMIT 5;

-- name: drift
SELECT what, sum(n_units)::BIGINT AS n_units FROM drift_between_snapshots GROUP BY ALL ORDER BY ALL;

-- name: newest
SELECT snapshot_id, made_at, kind, rcll_version, has_texts, (SELECT count(*) FROM snapshots) AS n_snapshots,
       (SELECT count(*) FROM banks) AS n_banks
FROM snapshots
ORDER BY snapshot_id DESC
LIMIT 1;
