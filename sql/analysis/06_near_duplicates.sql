-- Which texts say the same but for case, digits, blanks and punctuation? Clusters of two units or more, largest first.
-- example: FROM near_duplicates LIMIT 20
CREATE VIEW near_duplicates AS
WITH repeated AS (
    SELECT text_key FROM units WHERE text_key IS NOT NULL GROUP BY text_key HAVING count(*) > 1
), clusters AS (
    SELECT text_key, count(*) AS n_units, count(DISTINCT bank_id) AS n_banks, count(DISTINCT room) AS n_rooms,
           min(unit_id) AS unit_id, min(unit_id, 5) AS unit_ids
    FROM units
    WHERE text_key IN (FROM repeated)
    GROUP BY text_key
)
SELECT c.n_units, c.n_banks, c.n_rooms, u.room, u.text, c.unit_ids
FROM clusters c
JOIN units u USING (unit_id)
ORDER BY c.n_units DESC, c.unit_id;
