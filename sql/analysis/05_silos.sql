-- Which rooms are known to one bank only? What is known to a single team leaves with it.
-- example: FROM silos
CREATE VIEW silos AS
SELECT room, any_value(bank_id) AS bank_id, count(*) AS n_units
FROM units
WHERE room <> 'general'
GROUP BY room
HAVING count(DISTINCT bank_id) = 1
ORDER BY n_units DESC, room;
