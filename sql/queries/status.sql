-- name: bank_status
-- Per bank: units, how many are filed, explicit or in the fallback room, closets and tunnel ends.
SELECT u.bank_id::text AS bank_id,
       count(*) AS n_units,
       count(l.unit_id) AS n_filed,
       count(*) FILTER (WHERE 'explicit' IN (l.room_source, l.hall_source, l.layer_source)) AS n_explicit,
       count(*) FILTER (WHERE u.room = %(fallback)s) AS n_general,
       count(DISTINCT u.room) AS n_rooms,
       (SELECT count(*) FROM {closets} c WHERE c.bank_id = u.bank_id) AS n_closets,
       (SELECT count(*) FROM {tunnels} t WHERE u.bank_id IN (t.source_bank_id, t.target_bank_id)) AS n_tunnels
FROM {units} u
LEFT JOIN {ledger} l ON l.unit_id = u.id
GROUP BY u.bank_id
ORDER BY 1;

-- name: count_rule_hits
-- Units that each rule filed, in one bank.
SELECT rule, count(*) AS n_units
FROM (
    SELECT room_rule AS rule FROM {ledger} WHERE bank_id = %(bank)s AND room_rule IS NOT NULL
    UNION ALL
    SELECT hall_rule FROM {ledger} WHERE bank_id = %(bank)s AND hall_rule IS NOT NULL
    UNION ALL
    SELECT layer_rule FROM {ledger} WHERE bank_id = %(bank)s AND layer_rule IS NOT NULL
) hits
GROUP BY rule;
