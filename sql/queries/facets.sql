-- name: page_banks
-- Some banks by name with the number of their units.
SELECT b.{bank_key}::text AS bank_id, (SELECT count(*) FROM {units} u WHERE u.bank_id = b.{bank_key}) AS n_units
FROM {banks} b
WHERE b.{bank_key} = ANY(%(banks)s::{bank_type}[])
ORDER BY 1;

-- name: count_rooms
-- Units of a bank by room and hall, as they stand.
SELECT coalesce(u.room, 'general') AS room, coalesce(u.hall, 'fact') AS hall, count(*) AS n_units
FROM {units} u
WHERE u.bank_id = %(bank)s::{bank_type}
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: unit_banks
-- In which banks some units stand.
SELECT u.id::text, u.bank_id::text FROM {units} u WHERE u.id = ANY(%(unit_ids)s::uuid[]);
