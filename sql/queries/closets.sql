-- name: select_closet_sources
-- Sources of every closet of a bank and room, for upkeep, less those of closets that somebody asked for.
SELECT c.id::text AS closet_id, s.unit_id::text AS unit_id, s.text_hash
FROM {closets} c
JOIN {closet_sources} s ON s.closet_id = c.id
WHERE c.bank_id = %(bank)s::{bank_type} AND c.room = %(room)s
  AND NOT EXISTS (SELECT FROM {explicit} e WHERE e.id = c.id)
ORDER BY c.id, s.unit_id;

-- name: rooms_with_closets
-- Rooms that have closets already, so that a room that shrank is looked after too.
SELECT DISTINCT c.bank_id::text AS bank_id, c.room
FROM {closets} c
WHERE (%(banks)s::text[] IS NULL OR c.bank_id = ANY(%(banks)s::{bank_type}[]))
  AND NOT EXISTS (SELECT FROM {explicit} e WHERE e.id = c.id)
ORDER BY 1, 2;

-- name: find_closet
SELECT id::text FROM {closets} WHERE bank_id = %(bank)s::{bank_type} AND source_hash = %(source_hash)s;

-- name: match_closets
SELECT id::text FROM {closets} WHERE id BETWEEN %(low)s::uuid AND %(high)s::uuid ORDER BY id LIMIT 3;

-- name: rooms_of_units
SELECT room::text FROM {units} WHERE id = ANY(%(unit_ids)s::uuid[]) GROUP BY room ORDER BY count(*) DESC, room;

-- name: write_closet
-- A closet with its sources, in place of the one that bears its id; not where a source has changed since it was
-- read, or the bank is gone.
WITH sources AS (
    SELECT s.unit_id, s.text_hash, s.rank
    FROM unnest(%(unit_ids)s::uuid[], %(text_hashes)s::text[], %(ranks)s::int[]) AS s(unit_id, text_hash, rank)
    JOIN {units} u ON u.id = s.unit_id
    WHERE left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) = s.text_hash
), closet AS (
    INSERT INTO {closets} (id, bank_id, room, hall, title, summary, embedding, embedding_model, source_unit_ids,
                           source_hash, model, is_extractive, n_read, n_sources, status, run_id, updated_at)
    SELECT %(closet_id)s::uuid, %(bank)s::{bank_type}, %(room)s, %(hall)s, %(title)s, %(summary)s,
           %(embedding)s::{vector_type}, %(embedding_model)s, %(unit_ids)s::uuid[],
           %(source_hash)s, %(model)s, %(is_extractive)s, %(n_read)s, %(n_sources)s, 'fresh', %(run_id)s, now()
    WHERE (SELECT count(*) FROM sources) = %(n_sources)s
      AND EXISTS (SELECT FROM {banks} WHERE {bank_key} = %(bank)s::{bank_type})
    ON CONFLICT (id) DO UPDATE
       SET hall = excluded.hall, title = excluded.title, summary = excluded.summary,
           embedding = excluded.embedding, embedding_model = excluded.embedding_model,
           source_unit_ids = excluded.source_unit_ids, source_hash = excluded.source_hash, model = excluded.model,
           is_extractive = excluded.is_extractive, n_read = excluded.n_read, n_sources = excluded.n_sources,
           status = excluded.status, run_id = excluded.run_id, updated_at = excluded.updated_at
    RETURNING id
), gone AS (
    DELETE FROM {closet_sources} s USING closet
    WHERE s.closet_id = closet.id AND s.unit_id <> ALL (%(unit_ids)s::uuid[])
)
INSERT INTO {closet_sources} (closet_id, unit_id, text_hash, rank)
SELECT closet.id, sources.unit_id, sources.text_hash, sources.rank
FROM closet, sources
ON CONFLICT (closet_id, unit_id) DO UPDATE SET text_hash = excluded.text_hash, rank = excluded.rank
RETURNING closet_id::text;

-- name: mark_closets
-- Failed where a refresh failed, stale where a source changed while it was written, fresh again where the sources are
-- what they were; else untouched.
UPDATE {closets} c SET status = m.status, updated_at = now()
FROM unnest(%(closet_ids)s::uuid[], %(statuses)s::text[]) m(id, status)
WHERE c.id = m.id AND c.status <> m.status;

-- name: delete_closets
DELETE FROM {closets} WHERE id = ANY(%(closet_ids)s::uuid[]) RETURNING id::text;

-- name: is_stale
-- Fragment: whether a source of closet c is gone, reads differently, or stands in another bank or room; only a closet
-- that somebody asked for may gather units of several rooms.
EXISTS (
    SELECT FROM {closet_sources} s
    LEFT JOIN {units} u ON u.id = s.unit_id
    WHERE s.closet_id = c.id
      AND (u.id IS NULL OR u.bank_id <> c.bank_id
           OR (u.room IS DISTINCT FROM c.room
               AND NOT EXISTS (SELECT FROM {explicit} e WHERE e.id = c.id AND e.kind = 'closet'))
           OR left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) IS DISTINCT FROM s.text_hash))
;

-- name: list_closets
-- Closets with their freshness as a reader must see it.
SELECT c.id::text AS closet_id, c.bank_id::text AS bank_id, c.room, c.hall, c.title, c.summary, c.model,
       c.is_extractive, c.n_read, c.n_sources, c.created_at, e.id IS NOT NULL AS is_explicit,
       CASE WHEN c.status <> 'fresh' THEN c.status WHEN {is_stale} THEN 'stale' ELSE 'fresh' END AS status,
       ARRAY(SELECT s.unit_id::text FROM {closet_sources} s WHERE s.closet_id = c.id ORDER BY s.rank) AS unit_ids
FROM {closets} c
LEFT JOIN {explicit} e ON e.id = c.id AND e.kind = 'closet'
WHERE (%(banks)s::text[] IS NULL OR c.bank_id = ANY(%(banks)s::{bank_type}[]))
  AND (%(room)s::text IS NULL OR c.room = %(room)s)
  AND (%(closet_ids)s::uuid[] IS NULL OR c.id = ANY(%(closet_ids)s::uuid[]))
ORDER BY c.bank_id, c.room, c.n_sources DESC, c.id
LIMIT %(limit)s;
