-- Closets that do not say what they were made of, or say it differently in their two places.
SELECT c.id::text AS closet_id, c.n_sources, coalesce(cardinality(c.source_unit_ids), 0) AS n_listed, s.n_filed
FROM {closets} c
CROSS JOIN LATERAL (
    SELECT count(*) AS n_filed, coalesce(array_agg(f.unit_id ORDER BY f.unit_id), '{{}}') AS unit_ids
    FROM {closet_sources} f WHERE f.closet_id = c.id) s
WHERE s.n_filed = 0
   OR s.n_filed IS DISTINCT FROM c.n_sources
   OR s.unit_ids IS DISTINCT FROM ARRAY(SELECT unnest(c.source_unit_ids) ORDER BY 1);
