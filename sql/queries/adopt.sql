-- name: foreign_labels
-- Fragment: units of a bank with their labels, and which of these somebody else than rcll has set, less what was set
-- through rcll label. A default counts only where the ledger has it as explicit.
SELECT u.id, u.bank_id::text AS bank_id, l.unit_id IS NOT NULL AS is_known,
       u.room::text AS room, u.hall::text AS hall,
       substring(u.layer::text FROM '^\s*[lL]?(\d{{1,4}})\s*$')::smallint AS layer,
       u.room IS NOT NULL AND NOT coalesce(l.room_source = 'explicit' AND l.room_rule = %(by_hand)s, false)
         AND (coalesce(l.room_source = 'explicit', false)
              OR (u.room <> 'general' AND u.room IS DISTINCT FROM l.room)) AS takes_room,
       u.hall IS NOT NULL AND NOT coalesce(l.hall_source = 'explicit' AND l.hall_rule = %(by_hand)s, false)
         AND (coalesce(l.hall_source = 'explicit', false)
              OR (u.hall <> 'fact' AND u.hall IS DISTINCT FROM l.hall)) AS takes_hall,
       u.layer IS NOT NULL AND NOT coalesce(l.layer_source = 'explicit' AND l.layer_rule = %(by_hand)s, false)
         AND (coalesce(l.layer_source = 'explicit', false)
              OR (ltrim(u.layer::text, 'lL') <> '2' AND ltrim(u.layer::text, 'lL') IS DISTINCT FROM l.layer::text))
           AS takes_layer
FROM {units} u
LEFT JOIN {ledger} l ON l.unit_id = u.id
WHERE u.bank_id = %(bank)s::{bank_type} AND u.id > %(after)s::uuid
;

-- name: preview_adoption
-- How many units bear which foreign label, by field and value.
SELECT v.field, v.value, count(*) AS n_units
FROM ({foreign_labels}) f
CROSS JOIN LATERAL (VALUES ('room', f.room, f.takes_room), ('hall', f.hall, f.takes_hall),
                           ('layer', f.layer::text, f.takes_layer)) v(field, value, is_taken)
WHERE v.is_taken
GROUP BY 1, 2
ORDER BY 1 DESC, 3 DESC, 2;

-- name: adopt_page
-- Take over the foreign labels of a keyset page of a bank: the ledger learns what is stored and that it is adopted,
-- and the next run decides anew. Returns the last unit of the page, and how many were adopted.
WITH page AS MATERIALIZED (
    {foreign_labels}
    ORDER BY u.id LIMIT %(limit)s
), refiled AS (
    UPDATE {ledger} l
       SET room = CASE WHEN p.takes_room THEN p.room ELSE l.room END,
           hall = CASE WHEN p.takes_hall THEN p.hall ELSE l.hall END,
           layer = CASE WHEN p.takes_layer THEN p.layer ELSE l.layer END,
           room_source = CASE WHEN p.takes_room THEN 'adopted' ELSE l.room_source END,
           hall_source = CASE WHEN p.takes_hall THEN 'adopted' ELSE l.hall_source END,
           layer_source = CASE WHEN p.takes_layer THEN 'adopted' ELSE l.layer_source END,
           taxonomy_hash = NULL, is_held = false, run_id = %(run_id)s, labelled_at = now()
      FROM page p
     WHERE l.unit_id = p.id AND p.is_known AND (p.takes_room OR p.takes_hall OR p.takes_layer)
    RETURNING 1
), filed AS (
    INSERT INTO {ledger} (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source, run_id)
    SELECT p.id, p.bank_id, p.room, p.hall, p.layer, 'adopted', 'adopted', 'adopted', %(run_id)s
    FROM page p
    WHERE NOT p.is_known AND (p.takes_room OR p.takes_hall OR p.takes_layer)
    ON CONFLICT (unit_id) DO NOTHING
    RETURNING 1
)
SELECT (SELECT p.id::text FROM page p ORDER BY p.id DESC LIMIT 1),
       (SELECT count(*) FROM refiled) + (SELECT count(*) FROM filed);
