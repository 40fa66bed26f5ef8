-- Tunnels that rcll found by itself and that end in room general or in no room, or join two rooms.
SELECT t.id::text AS tunnel_id, s.room AS source_room, e.room AS target_room
FROM {tunnels} t
JOIN {units} s ON s.id = t.source_unit_id
JOIN {units} e ON e.id = t.target_unit_id
WHERE t.method = 'auto'
  AND (s.room IS DISTINCT FROM e.room OR coalesce(s.room, 'general') = 'general');
