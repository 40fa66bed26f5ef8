-- Units whose stored label is not the one that the ledger says rcll wrote there. After a run there are none;
-- between runs somebody may have set a label by hand, which the next run freezes as explicit. Units on hold
-- bear what an undo gave back.
SELECT u.id::text AS unit_id, u.room, l.room AS ledger_room, u.hall, l.hall AS ledger_hall,
       u.layer::text AS layer, l.layer AS ledger_layer
FROM {units} u
JOIN {ledger} l ON l.unit_id = u.id
WHERE NOT l.is_held
  AND ((l.room_source <> 'explicit' AND u.room IS DISTINCT FROM l.room)
    OR (l.hall_source <> 'explicit' AND u.hall IS DISTINCT FROM l.hall)
    OR (l.layer_source <> 'explicit' AND ltrim(u.layer::text, 'Ll') IS DISTINCT FROM l.layer::text));
