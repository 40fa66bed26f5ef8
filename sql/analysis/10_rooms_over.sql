-- Which rooms hold more units than a threshold, and how much of each do closets cover already?
-- example: FROM rooms_over(200)
CREATE MACRO rooms_over(threshold) AS TABLE
WITH rooms AS (
    SELECT bank_id, room, count(*) AS n_units FROM units GROUP BY ALL HAVING count(*) > threshold
), covered AS (
    SELECT c.bank_id, c.room, count(DISTINCT c.closet_id) AS n_closets, count(DISTINCT s.unit_id) AS n_covered
    FROM closets c JOIN closet_sources s USING (closet_id)
    GROUP BY ALL
)
SELECT r.bank_id, r.room, r.n_units, coalesce(c.n_closets, 0) AS n_closets,
       round(coalesce(c.n_covered, 0) / r.n_units, 3) AS covered_share
FROM rooms r LEFT JOIN covered c USING (bank_id, room)
ORDER BY r.n_units DESC, r.bank_id, r.room;
