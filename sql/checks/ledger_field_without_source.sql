-- Ledger rows that hold a value without saying who decided it, or a layer that there is not.
SELECT unit_id::text, room, room_source, hall, hall_source, layer, layer_source
FROM {ledger}
WHERE (room IS NOT NULL AND room_source IS NULL)
   OR (hall IS NOT NULL AND hall_source IS NULL)
   OR (layer IS NOT NULL AND layer_source IS NULL)
   OR layer NOT BETWEEN 0 AND 3;
