-- How is the palace filled: units of each room, by hall?
-- example: FROM rooms_by_halls
CREATE VIEW rooms_by_halls AS
SELECT coalesce(room, 'unset') AS room,
       count(*) AS n_units,
       count(*) FILTER (hall = 'warning') AS warning,
       count(*) FILTER (hall = 'decision') AS decision,
       count(*) FILTER (hall = 'procedure') AS procedure,
       count(*) FILTER (hall = 'event') AS event,
       count(*) FILTER (hall = 'preference') AS preference,
       count(*) FILTER (hall = 'discovery') AS discovery,
       count(*) FILTER (coalesce(hall, 'fact') = 'fact') AS fact,
       count(*) FILTER (coalesce(hall, 'fact') NOT IN (
           'warning', 'decision', 'procedure', 'event', 'preference', 'discovery', 'fact')) AS other
FROM units
GROUP BY ALL
ORDER BY n_units DESC, room;
