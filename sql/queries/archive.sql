-- name: claim_sources
-- Sources of fresh closets of a bank and room that shall rest in the archive layer: all but the most central one,
-- less what somebody set, what an undo holds, what is critical, and what reads differently. Their closet remembers
-- what it takes the place of. The labels as store.write.WRITES, and the rules that the ledger names.
WITH claimed AS MATERIALIZED (
    SELECT s.closet_id, u.id, u.bank_id::text AS bank_id, s.text_hash, u.room::text AS old_room,
           u.hall::text AS old_hall, u.layer::text AS old_layer, l.room, l.hall, l.layer,
           l.room_source, l.hall_source, l.layer_source, l.room_rule, l.hall_rule, l.layer_rule,
           l.room_tier, l.hall_tier, l.language, l.taxonomy_hash, s.replaced
    FROM {closets} c
    JOIN {closet_sources} s ON s.closet_id = c.id
    JOIN {units} u ON u.id = s.unit_id
    JOIN {ledger} l ON l.unit_id = u.id
    WHERE c.bank_id = %(bank)s::{bank_type} AND c.room = %(room)s AND c.status = 'fresh' AND s.rank > 0
      AND l.layer_source IN ('rule', 'adopted') AND NOT l.is_held AND l.layer IN (1, 2)
      AND ltrim(u.layer::text, 'lL') = l.layer::text
      AND (u.room::text, u.hall::text) IS NOT DISTINCT FROM (l.room, l.hall)
      AND left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) = s.text_hash
), remembered AS (
    UPDATE {closet_sources} s
       SET replaced = jsonb_build_object('layer', k.old_layer, 'source', k.layer_source, 'rule', k.layer_rule)
      FROM claimed k
     WHERE %(may_write)s AND s.closet_id = k.closet_id AND s.unit_id = k.id
       AND s.replaced IS DISTINCT FROM
           jsonb_build_object('layer', k.old_layer, 'source', k.layer_source, 'rule', k.layer_rule)
)
SELECT DISTINCT ON (id) id::text AS unit_id, bank_id, text_hash, old_room, old_hall, old_layer, room, hall,
       3::smallint AS layer, room_source, hall_source, 'archived' AS layer_source, room_rule, hall_rule,
       'closet ' || closet_id AS layer_rule, room_tier, hall_tier, language, true AS writes_unit,
       'archived' AS reason, CASE WHEN old_layer ~ '^[lL]' THEN 'L3' ELSE '3' END AS stored_layer, taxonomy_hash
FROM claimed
ORDER BY id, closet_id;

-- name: note_archived
-- The loader logs a unit once a run; where the run had filed it before, the log learns what it bears now.
UPDATE {changes} c SET layer = u.layer::text
FROM {units} u
WHERE c.run_id = %(run_id)s AND c.unit_id = ANY(%(unit_ids)s::uuid[]) AND u.id = c.unit_id
  AND c.layer IS DISTINCT FROM u.layer::text;

-- name: release_sources
-- Give the sources of closets their layer back, less the pairs of closet and unit that are kept; in the transaction
-- that drops or changes the closet. A layer that somebody has set since stays, and so does a unit that another closet
-- stands for. Where other rules have been at work since, the next run decides.
WITH leaving AS MATERIALIZED (
    SELECT s.closet_id, s.unit_id, s.replaced
    FROM {closet_sources} s
    WHERE s.closet_id = ANY(%(closet_ids)s::uuid[]) AND s.replaced IS NOT NULL
      AND NOT EXISTS (SELECT FROM unnest(%(kept_closets)s::uuid[], %(kept_units)s::uuid[]) k(closet_id, unit_id)
                      WHERE k.closet_id = s.closet_id AND k.unit_id = s.unit_id)
), archived AS MATERIALIZED (
    SELECT u.id, u.bank_id::text AS bank_id, u.room::text AS room, u.hall::text AS hall, u.layer::text AS layer,
           (SELECT v.replaced FROM leaving v WHERE v.unit_id = u.id LIMIT 1) AS replaced, to_jsonb(l) AS old_ledger
    FROM {units} u
    JOIN {ledger} l ON l.unit_id = u.id
    WHERE u.id IN (SELECT v.unit_id FROM leaving v)
      AND l.layer_source = 'archived' AND ltrim(u.layer::text, 'lL') = '3'
      AND NOT EXISTS (SELECT FROM {closet_sources} o
                      WHERE o.unit_id = u.id AND o.replaced IS NOT NULL
                        AND (o.closet_id, o.unit_id) NOT IN (SELECT v.closet_id, v.unit_id FROM leaving v))
    ORDER BY u.id
    FOR NO KEY UPDATE OF u
), {give_back}
), forgotten AS (
    UPDATE {closet_sources} s SET replaced = NULL
      FROM leaving v WHERE s.closet_id = v.closet_id AND s.unit_id = v.unit_id
)
SELECT count(*) FROM archived;

-- name: release_orphans
-- The same for units whose closet is gone by another way than through rcll, as in a restore: their layer becomes the
-- default, and the next run lets the rules decide.
WITH archived AS MATERIALIZED (
    SELECT u.id, u.bank_id::text AS bank_id, u.room::text AS room, u.hall::text AS hall, u.layer::text AS layer,
           jsonb_build_object('layer', CASE WHEN u.layer::text ~ '^[lL]' THEN 'L2' ELSE '2' END,
                              'source', 'rule', 'is_unknown', true) AS replaced,
           to_jsonb(l) AS old_ledger
    FROM {ledger} l
    JOIN {units} u ON u.id = l.unit_id
    WHERE l.bank_id = ANY(%(banks)s) AND l.layer_source = 'archived' AND ltrim(u.layer::text, 'lL') = '3'
      AND NOT EXISTS (SELECT FROM {closet_sources} s WHERE s.unit_id = l.unit_id AND s.replaced IS NOT NULL)
    ORDER BY u.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF u SKIP LOCKED
), {give_back}
)
SELECT count(*) FROM archived;

-- name: give_back
-- Fragment: what becomes of units in "archived"; the last parenthesis is the caller's.
written AS (
    UPDATE {units} u SET layer = (a.replaced->>'layer')::{layer_type} FROM archived a WHERE u.id = a.id
), refiled AS (
    UPDATE {ledger} l
       SET layer = ltrim(a.replaced->>'layer', 'lL')::smallint, layer_source = a.replaced->>'source',
           layer_rule = a.replaced->>'rule', run_id = %(run_id)s, labelled_at = now(),
           taxonomy_hash = CASE WHEN a.replaced->>'is_unknown' IS NULL
                                 AND (l.layer_rule LIKE 'closet %%'
                                   OR l.layer_rule IS NOT DISTINCT FROM a.replaced->>'rule') THEN l.taxonomy_hash END
      FROM archived a WHERE l.unit_id = a.id
), logged AS (
    INSERT INTO {changes} AS c (run_id, unit_id, bank_id, old_room, old_hall, old_layer, room, hall, layer, old_ledger)
    SELECT %(run_id)s, a.id, a.bank_id, a.room, a.hall, a.layer, a.room, a.hall, a.replaced->>'layer', a.old_ledger
    FROM archived a
    ON CONFLICT (run_id, unit_id) DO UPDATE SET layer = excluded.layer
