-- Ledger rows of existing units that name another bank than the unit does: filtered recall would miss them.
SELECT l.unit_id::text, l.bank_id, u.bank_id::text AS units_bank_id
FROM {ledger} l
JOIN {units} u ON u.id = l.unit_id
WHERE u.bank_id::text <> l.bank_id;
