-- Units that rest in the archive layer because of a closet, and no fresh closet lists them any more.
SELECT l.unit_id::text
FROM {ledger} l
JOIN {units} u ON u.id = l.unit_id
WHERE l.layer_source = 'archived'
  AND NOT EXISTS (SELECT FROM {closet_sources} s JOIN {closets} c ON c.id = s.closet_id
                  WHERE s.unit_id = l.unit_id AND c.status = 'fresh');
