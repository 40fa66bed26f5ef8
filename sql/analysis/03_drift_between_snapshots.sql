-- What moved since the snapshot before the newest? One row for each way of moving; "what" says new, gone or moved.
-- example: FROM drift_between_snapshots LIMIT 20
CREATE VIEW drift_between_snapshots AS
WITH pair AS (
    SELECT max(snapshot_id) AS newer, max(snapshot_id) FILTER (snapshot_id < (SELECT max(snapshot_id) FROM snapshots)) AS older
    FROM snapshots
), before AS (
    SELECT h.unit_id, h.bank_id, h.room, h.hall, h.layer
    FROM units_history h WHERE h.snapshot_id = (SELECT older FROM pair)
), moved AS (
    SELECT CASE WHEN b.unit_id IS NULL THEN 'new' WHEN n.unit_id IS NULL THEN 'gone' ELSE 'moved' END AS what,
           coalesce(n.bank_id, b.bank_id) AS bank_id,
           b.room AS old_room, n.room, b.hall AS old_hall, n.hall, b.layer AS old_layer, n.layer
    FROM units n FULL JOIN before b ON b.unit_id = n.unit_id
    WHERE (SELECT older FROM pair) IS NOT NULL
      AND (n.unit_id IS NULL OR b.unit_id IS NULL
           OR (n.room, n.hall, n.layer) IS DISTINCT FROM (b.room, b.hall, b.layer))
)
SELECT what, bank_id, old_room, room, old_hall, hall, old_layer, layer, count(*) AS n_units
FROM moved
GROUP BY ALL
ORDER BY n_units DESC, what, bank_id, old_room, room, old_hall, hall, old_layer, layer;
