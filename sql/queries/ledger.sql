-- name: start_run
-- A run that was killed leaves status 'running' behind; see close_dead_runs.
INSERT INTO {runs} (run_id, kind, status, started_at, taxonomy_hash, rcll_version, parameters)
VALUES (%(run_id)s, %(kind)s, 'running', now(), %(taxonomy_hash)s, %(version)s, %(parameters)s)
ON CONFLICT (run_id) DO NOTHING;

-- name: finish_run
UPDATE {runs} SET status = %(status)s, finished_at = now(), summary = %(summary)s WHERE run_id = %(run_id)s;

-- name: close_dead_runs
-- Runs that say 'running' although no lease of theirs is alive were killed.
UPDATE {runs} r SET status = 'failed', finished_at = now()
 WHERE r.status = 'running' AND r.started_at < now() - make_interval(secs => %(seconds)s)
   AND NOT EXISTS (SELECT FROM {leases} l WHERE l.run_id = r.run_id AND l.expires_at > clock_timestamp())
RETURNING r.run_id::text;

-- name: list_runs
-- Newest first. A run that was killed says 'running' until the next one closes it; without a living lease it is dead,
-- but for the moment between its beginning and its leases.
SELECT r.run_id::text, r.kind,
       CASE WHEN r.status = 'running' AND r.started_at < now() - make_interval(secs => %(seconds)s)
             AND NOT EXISTS (SELECT FROM {leases} l WHERE l.run_id = r.run_id AND l.expires_at > clock_timestamp())
            THEN 'dead' ELSE r.status END AS status,
       r.started_at, r.finished_at, r.summary
FROM {runs} r ORDER BY r.started_at DESC LIMIT %(limit)s;

-- name: match_runs
-- Ids of the first few runs between two ids.
SELECT run_id::text FROM {runs} WHERE run_id BETWEEN %(low)s::uuid AND %(high)s::uuid ORDER BY run_id LIMIT 3;

-- name: match_units
-- Ids of the first few units between two ids.
SELECT id::text FROM {units} WHERE id BETWEEN %(low)s::uuid AND %(high)s::uuid ORDER BY id LIMIT 3;

-- name: find_plan_run
-- The run that applied a plan to its end; one that was killed or left rows locked does not count.
SELECT run_id::text, kind, status, started_at, finished_at, summary
FROM {runs}
WHERE parameters->>'plan' = %(plan)s AND status IN ('done', 'undone')
ORDER BY started_at LIMIT 1;

-- name: database_identity
-- Name, server and number of the database: a clone differs in the number, a copy on another server in its identifier.
SELECT d.datname, s.system_identifier::text, d.oid::text
FROM pg_catalog.pg_database d, pg_catalog.pg_control_system() s
WHERE d.datname = pg_catalog.current_database();

-- name: select_label
-- One unit with what the ledger says, for explain.
SELECT u.id::text AS unit_id, u.bank_id::text AS bank_id, u.{text} AS text,
       u.room::text AS room, u.hall::text AS hall, u.layer::text AS layer,
       l.room_source, l.hall_source, l.layer_source, l.room_rule, l.hall_rule, l.layer_rule,
       l.labelled_at, l.run_id::text AS run_id, coalesce(l.is_held, false) AS is_held,
       l.unit_id IS NOT NULL AND l.taxonomy_hash IS NULL AS is_due
FROM {units} u
LEFT JOIN {ledger} l ON l.unit_id = u.id
WHERE u.id = %(unit_id)s;

-- name: set_explicit
-- Labels that somebody sets: unit and ledger in one statement. A field given as NULL is left as it is; where
-- the ledger has no row yet, a value of it that is no default counts as set by somebody before.
WITH named AS (
    SELECT u.id, u.bank_id::text AS bank_id,
           coalesce(%(room)s::text, u.room) AS room, coalesce(%(hall)s::text, u.hall) AS hall,
           coalesce(%(stored_layer)s::text, u.layer::text) AS stored_layer
    FROM {units} u WHERE u.id = ANY(%(unit_ids)s::uuid[])
    ORDER BY u.id FOR NO KEY UPDATE
), written AS (
    UPDATE {units} u
       SET room = n.room, hall = n.hall, layer = n.stored_layer::{layer_type}
      FROM named n
     WHERE u.id = n.id
       AND (u.room, u.hall, u.layer::text) IS DISTINCT FROM (n.room, n.hall, n.stored_layer)
)
INSERT INTO {ledger} AS l (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source,
                           room_rule, hall_rule, layer_rule)
SELECT n.id, n.bank_id, n.room, n.hall,
       substring(n.stored_layer FROM '^\s*[lL]?(\d{{1,4}})\s*$')::smallint,
       CASE WHEN %(room)s::text IS NULL AND coalesce(n.room, 'general') = 'general' THEN 'rule' ELSE 'explicit' END,
       CASE WHEN %(hall)s::text IS NULL AND coalesce(n.hall, 'fact') = 'fact' THEN 'rule' ELSE 'explicit' END,
       CASE WHEN %(layer)s::smallint IS NULL AND coalesce(ltrim(n.stored_layer, 'lL'), '2') = '2'
            THEN 'rule' ELSE 'explicit' END,
       CASE WHEN %(room)s::text IS NOT NULL THEN %(by_hand)s END,
       CASE WHEN %(hall)s::text IS NOT NULL THEN %(by_hand)s END,
       CASE WHEN %(layer)s::smallint IS NOT NULL THEN %(by_hand)s END
FROM named n
ON CONFLICT (unit_id) DO UPDATE
   SET room = coalesce(%(room)s::text, l.room), hall = coalesce(%(hall)s::text, l.hall),
       layer = coalesce(%(layer)s::smallint, l.layer),
       room_source = CASE WHEN %(room)s::text IS NULL THEN l.room_source ELSE 'explicit' END,
       hall_source = CASE WHEN %(hall)s::text IS NULL THEN l.hall_source ELSE 'explicit' END,
       layer_source = CASE WHEN %(layer)s::smallint IS NULL THEN l.layer_source ELSE 'explicit' END,
       room_rule = CASE WHEN %(room)s::text IS NULL THEN l.room_rule ELSE %(by_hand)s END,
       hall_rule = CASE WHEN %(hall)s::text IS NULL THEN l.hall_rule ELSE %(by_hand)s END,
       layer_rule = CASE WHEN %(layer)s::smallint IS NULL THEN l.layer_rule ELSE %(by_hand)s END,
       labelled_at = now()
RETURNING unit_id::text;

-- name: clear_explicit
-- Hand units back to the rules, also those that the ledger does not know: it learns what is stored and that nobody
-- insists on it, and the next run files them again.
INSERT INTO {ledger} AS l (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source)
SELECT u.id, u.bank_id::text, u.room, u.hall,
       substring(u.layer::text FROM '^\s*[lL]?(\d{{1,4}})\s*$')::smallint, 'rule', 'rule', 'rule'
FROM {units} u WHERE u.id = ANY(%(unit_ids)s::uuid[])
ORDER BY u.id
ON CONFLICT (unit_id) DO UPDATE
   SET room = excluded.room, hall = excluded.hall, layer = excluded.layer,
       room_source = 'rule', hall_source = 'rule',
       layer_source = CASE l.layer_source WHEN 'archived' THEN 'archived' ELSE 'rule' END,
       room_rule = NULL, hall_rule = NULL, layer_rule = NULL,
       taxonomy_hash = NULL, is_held = false, labelled_at = now()
RETURNING unit_id::text;
