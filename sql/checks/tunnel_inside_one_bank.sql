-- Tunnels whose two ends stand in the same bank.
SELECT t.id::text AS tunnel_id, s.bank_id::text AS bank_id
FROM {tunnels} t
JOIN {units} s ON s.id = t.source_unit_id
JOIN {units} e ON e.id = t.target_unit_id
WHERE s.bank_id = e.bank_id;
