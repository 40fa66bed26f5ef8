-- What did each change of the rules move? Labels that a run replaced, by the rules before and after; NULL before
-- means that no rules had filed the unit yet.
-- example: FROM drift_between_taxonomies WHERE old_taxonomy IS NOT NULL
CREATE VIEW drift_between_taxonomies AS
SELECT c.old_taxonomy_hash AS old_taxonomy, r.taxonomy_hash AS taxonomy, c.bank_id,
       c.old_room, c.room, c.old_hall, c.hall, count(*) AS n_units
FROM changes c
JOIN runs r USING (run_id)
WHERE r.kind = 'reorganize'
  AND c.old_taxonomy_hash IS DISTINCT FROM r.taxonomy_hash
  AND (c.old_room, c.old_hall) IS DISTINCT FROM (c.room, c.hall)
GROUP BY ALL
ORDER BY n_units DESC, old_taxonomy, taxonomy, bank_id, old_room, room, old_hall, hall;
