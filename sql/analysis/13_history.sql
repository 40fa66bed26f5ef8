-- What has happened to one unit: when it was made, which runs changed its label, how it stood in each snapshot,
-- which closets and tunnels bear it?
-- example: FROM history((SELECT min(unit_id) FROM changes))
CREATE MACRO history(unit) AS TABLE
SELECT coalesce(created_at, happened_at) AS moment, 'made' AS what, bank_id AS detail FROM units WHERE unit_id = unit
UNION ALL
SELECT changed_at, 'labelled by run ' || run_id,
       concat(old_room, '/', old_hall, '/', old_layer, ' -> ', room, '/', hall, '/', layer)
FROM changes WHERE unit_id = unit
UNION ALL
SELECT s.made_at, 'in snapshot ' || snapshot_id, concat(u.room, '/', u.hall, '/', u.layer)
FROM units_history u JOIN snapshots s USING (snapshot_id) WHERE u.unit_id = unit
UNION ALL
SELECT c.updated_at, 'in closet ' || closet_id, c.title
FROM closet_sources s JOIN closets c USING (closet_id) WHERE s.unit_id = unit
UNION ALL
SELECT t.created_at, 'tunnel to ' || CASE WHEN source_unit_id = unit THEN target_bank_id ELSE bank_id END, t.relationship
FROM tunnels t WHERE unit IN (t.source_unit_id, t.target_unit_id)
ORDER BY moment, what;
