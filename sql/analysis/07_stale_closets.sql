-- Which closets are not shown, because a source changed (stale) or a refresh failed, and how much of each?
-- example: FROM stale_closets
CREATE VIEW stale_closets AS
SELECT c.status, c.bank_id, c.room, c.title, c.n_sources,
       count(*) FILTER (s.is_stale) AS n_stale_sources, c.updated_at, c.closet_id
FROM closets c
LEFT JOIN closet_sources s USING (closet_id)
WHERE c.status <> 'fresh'
GROUP BY ALL
ORDER BY c.status, c.bank_id, c.room, c.closet_id;
