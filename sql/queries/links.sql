-- name: page_tunnels
-- Tunnels of which both ends stand in banks that the caller may read; the bank of an end is the bank its unit stands
-- in now.
WITH seen AS (
    SELECT t.id, t.relationship, t.score, t.method, t.created_at,
           a.bank_id::text AS source_bank_id, t.source_unit_id, a.{text} AS source_text,
           b.bank_id::text AS target_bank_id, t.target_unit_id, b.{text} AS target_text, a.room::text AS room
    FROM {tunnels} t
    JOIN {units} a ON a.id = t.source_unit_id
    JOIN {units} b ON b.id = t.target_unit_id
    WHERE (%(readable)s::text[] IS NULL
           OR a.bank_id::text = ANY(%(readable)s::text[]) AND b.bank_id::text = ANY(%(readable)s::text[]))
      AND (%(bank)s::text IS NULL OR %(bank)s IN (a.bank_id::text, b.bank_id::text))
      AND (%(tunnel_id)s::uuid IS NULL OR t.id = %(tunnel_id)s::uuid)
)
SELECT id::text AS id, relationship, score, method, created_at, source_bank_id, source_unit_id::text AS source_unit_id,
       source_text, target_bank_id, target_unit_id::text AS target_unit_id, target_text, room,
       (SELECT count(*) FROM seen) AS total
FROM seen
ORDER BY score DESC NULLS LAST, id
LIMIT %(limit)s OFFSET %(offset)s;

-- name: page_closets
-- Closets of banks that the caller may read, with their freshness as a reader must see it.
WITH seen AS (
    SELECT c.*
    FROM {closets} c
    WHERE (%(readable)s::text[] IS NULL OR c.bank_id::text = ANY(%(readable)s::text[]))
      AND (%(bank)s::text IS NULL OR c.bank_id::text = %(bank)s)
      AND (%(room)s::text IS NULL OR c.room = %(room)s) AND (%(hall)s::text IS NULL OR c.hall = %(hall)s)
      AND (%(closet_id)s::uuid IS NULL OR c.id = %(closet_id)s::uuid)
)
SELECT c.id::text AS id, c.bank_id::text AS bank_id, c.room, c.hall, c.title, c.summary, c.model, c.is_extractive,
       c.n_read, c.n_sources, c.created_at, c.updated_at,
       CASE WHEN c.status <> 'fresh' THEN c.status WHEN {is_stale} THEN 'stale' ELSE 'fresh' END AS status,
       ARRAY(SELECT s.unit_id::text FROM {closet_sources} s WHERE s.closet_id = c.id ORDER BY s.rank)
           AS source_unit_ids,
       (SELECT count(*) FROM seen) AS total
FROM seen c
ORDER BY c.bank_id, c.room, c.n_sources DESC NULLS LAST, c.id
LIMIT %(limit)s OFFSET %(offset)s;
