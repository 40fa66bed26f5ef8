-- name: find_run
-- One run, for undo.
SELECT run_id::text, kind, status, started_at, finished_at, summary FROM {runs} WHERE run_id = %(run_id)s;

-- name: of_run
-- Fragment: what a run wrote to the log c. Its time says on which pages to look; a day more, as clocks are set back.
c.run_id = %(run_id)s
AND c.changed_at >= (SELECT r.started_at - interval '1 day' FROM {runs} r WHERE r.run_id = %(run_id)s)
;

-- name: touched_banks
-- Banks in which a run wrote labels, closets or tunnels.
SELECT c.bank_id FROM {changes} c WHERE {of_run}
UNION SELECT bank_id::text FROM {closets} WHERE run_id = %(run_id)s
UNION SELECT unnest(ARRAY[source_bank_id, target_bank_id])::text FROM {tunnels} WHERE run_id = %(run_id)s
ORDER BY 1;

-- name: select_undo_page
-- One keyset page of what a run wrote, beside what units and ledger say now (stages.undo.UNDO). Runs that were
-- undone, and undos, do not count as later writers.
SELECT c.unit_id::text AS unit_id, coalesce(u.bank_id::text, c.bank_id) AS bank_id,
       u.id IS NULL AS is_gone,
       EXISTS (SELECT FROM {changes} later JOIN {runs} r ON r.run_id = later.run_id
               WHERE later.unit_id = c.unit_id AND later.changed_at > c.changed_at
                 AND r.kind <> 'undo' AND r.status <> 'undone') AS is_overwritten,
       left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) AS text_hash,
       c.old_room, c.old_hall, c.old_layer, c.room AS new_room, c.hall AS new_hall, c.layer AS new_layer,
       u.room::text AS room, u.hall::text AS hall, u.layer::text AS layer,
       l.text_hash AS ledger_text_hash, l.taxonomy_hash AS ledger_taxonomy_hash, l.layer AS ledger_layer,
       l.room_source, l.hall_source, l.layer_source, l.room_rule, l.hall_rule, l.layer_rule,
       l.room_tier, l.hall_tier, l.language,
       c.old_ledger->>'room_source' AS was_room_source, c.old_ledger->>'hall_source' AS was_hall_source,
       c.old_ledger->>'layer_source' AS was_layer_source, c.old_ledger->>'room_rule' AS was_room_rule,
       c.old_ledger->>'hall_rule' AS was_hall_rule, c.old_ledger->>'layer_rule' AS was_layer_rule,
       c.old_ledger->>'room_tier' AS was_room_tier, c.old_ledger->>'hall_tier' AS was_hall_tier
FROM {changes} c
LEFT JOIN {units} u ON u.id = c.unit_id
LEFT JOIN {ledger} l ON l.unit_id = c.unit_id
WHERE {of_run} AND c.unit_id > %(after)s::uuid
ORDER BY c.unit_id
LIMIT %(limit)s;

-- name: select_run_closets
-- Closets that a run made or was the last to write, less those that somebody asked for.
SELECT c.bank_id::text AS bank_id, c.id::text AS closet_id
FROM {closets} c
WHERE c.run_id = %(run_id)s AND NOT EXISTS (SELECT FROM {explicit} e WHERE e.id = c.id)
ORDER BY 1, 2;

-- name: delete_run_tunnels
-- Tunnels that a run found, a batch at a time.
DELETE FROM {tunnels}
WHERE id IN (SELECT id FROM {tunnels} WHERE run_id = %(run_id)s AND method = 'auto' ORDER BY id LIMIT %(limit)s)
RETURNING id::text;

-- name: mark_undone
UPDATE {runs} SET status = 'undone', finished_at = coalesce(finished_at, now()) WHERE run_id = %(run_id)s;

-- name: release_holds
-- Let the rules decide again about units that the undo of a run holds, a keyset page at a time: the last unit of the
-- page, null where there was none, and how many were released.
WITH page AS (
    SELECT c.unit_id FROM {changes} c
    WHERE {of_run} AND c.unit_id > %(after)s::uuid
    ORDER BY c.unit_id LIMIT %(limit)s
), released AS (
    UPDATE {ledger} l SET is_held = false, taxonomy_hash = NULL
    FROM page WHERE l.unit_id = page.unit_id AND l.is_held
    RETURNING 1
)
SELECT (SELECT unit_id::text FROM page ORDER BY page.unit_id DESC LIMIT 1), (SELECT count(*) FROM released);
