-- Sources of fresh closets that are gone, read differently now, or stand in another bank or room. Readers hide
-- such a closet at once; a run refreshes or drops it, so that after a run there are none. A closet that
-- somebody asked for may gather units of several rooms.
SELECT c.id::text AS closet_id, s.unit_id::text, u.id IS NULL AS is_gone, u.bank_id::text AS bank_id, u.room
FROM {closets} c
JOIN {closet_sources} s ON s.closet_id = c.id
LEFT JOIN {units} u ON u.id = s.unit_id
WHERE c.status = 'fresh'
  AND (u.id IS NULL
       OR u.bank_id <> c.bank_id
       OR (u.room IS DISTINCT FROM c.room AND NOT EXISTS (SELECT FROM {explicit} e WHERE e.id = c.id))
       OR s.text_hash <> left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32));
