-- name: search_settings
-- First statement of a search's transaction. A scan goes on until it has enough or has seen this many tuples;
-- relaxed_order finds more of them, and the query sorts.
SELECT pg_catalog.set_config('hnsw.ef_search', '200', true),
       pg_catalog.set_config('hnsw.iterative_scan', 'relaxed_order', true),
       pg_catalog.set_config('hnsw.max_scan_tuples', '20000', true),
       pg_catalog.set_config('statement_timeout', %(timeout)s, true);

-- name: vector_indexes
-- Whether memory_units has vector indexes, and whether they are partial by fact_type, as Hindsight's are.
SELECT count(*) > 0,
       coalesce(bool_or(pg_catalog.pg_get_expr(i.indpred, i.indrelid) LIKE '%%fact_type%%'), false)
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_am a ON a.oid = c.relam
WHERE i.indrelid = %(units)s::regclass AND a.amname IN ('hnsw', 'ivfflat');

-- name: probe_units
-- A few units of a bank with their vectors.
SELECT u.{text}, u.embedding::text
FROM {units} u
WHERE u.bank_id = %(bank)s::{bank_type} AND u.embedding IS NOT NULL AND u.{text} <> ''
LIMIT 5;

-- name: has_bank
-- A bank that is registered or bears units.
SELECT EXISTS (SELECT FROM {banks} WHERE {bank_key} = %(bank)s::{bank_type})
    OR EXISTS (SELECT FROM {units} WHERE bank_id = %(bank)s::{bank_type});

-- name: registered_banks
SELECT {bank_key}::text FROM {banks} ORDER BY 1;

-- name: in_filter
-- Fragment: units that a recall asks for; what nobody has labelled reads as the defaults.
(%(rooms)s::text[] IS NULL OR coalesce(u.room, 'general') = ANY(%(rooms)s::text[]))
AND (%(halls)s::text[] IS NULL OR coalesce(u.hall, 'fact') = ANY(%(halls)s::text[]))
AND {layer} <= %(max_layer)s
;

-- name: search_branch
-- Fragment: the nearest units of a bank, and which of them are asked for. The filter stands outside the WHERE, or the
-- planner would rather read and sort the bank than go by the vector index. Bank and type are literals: a partial index
-- is used only for its own words.
(SELECT u.id, u.embedding {cosine} %(vector)s::{vector_type} AS distance, {in_filter} AS is_asked_for
 FROM {units} u
 WHERE u.bank_id = {bank} AND {of_type} AND u.embedding IS NOT NULL
 ORDER BY u.embedding {cosine} %(vector)s::{vector_type}
 LIMIT %(each)s)
;

-- name: search_nearest
-- The nearest units that are asked for, among those that the vector indexes find; the place of each among all that
-- were found, and how many these were.
WITH found AS MATERIALIZED (
    {branches}
), placed AS (
    SELECT id, distance, is_asked_for, row_number() OVER (ORDER BY distance, id) AS place, count(*) OVER () AS n_seen
    FROM found WHERE distance <> 'NaN'
)
SELECT id::text AS id, distance, place, n_seen
FROM placed WHERE is_asked_for
ORDER BY place
LIMIT %(limit)s;

-- name: filed_in
-- Fragment: ledger rows of the rooms, halls and layers asked for.
FROM {ledger} l
WHERE l.bank_id = %(bank)s AND coalesce(l.layer, 2) <= %(max_layer)s
  AND (%(rooms)s::text[] IS NULL OR l.room = ANY(%(rooms)s::text[]))
  AND (%(halls)s::text[] IS NULL OR l.hall = ANY(%(halls)s::text[]))
;

-- name: count_filed
-- Units of the rooms and halls asked for, counted no further than need be.
SELECT count(*) FROM (SELECT {filed_in} LIMIT %(most)s) f;

-- name: search_exact
-- The nearest units of some rooms and halls, all of them looked at: found by the ledger's index, as memory_units has
-- none on its labels, and checked against the units.
WITH filed AS MATERIALIZED (
    SELECT l.unit_id {filed_in}
), near AS MATERIALIZED (
    SELECT u.id, u.embedding {cosine} %(vector)s::{vector_type} AS distance
    FROM filed f
    JOIN {units} u ON u.id = f.unit_id
    WHERE u.bank_id = {bank} AND u.embedding IS NOT NULL AND {in_filter}
)
SELECT id::text AS id, distance
FROM near WHERE distance <> 'NaN'
ORDER BY distance, id
LIMIT %(limit)s;

-- name: unit_distances
-- How far given units are.
SELECT u.id::text, u.embedding {cosine} %(vector)s::{vector_type} AS distance
FROM {units} u
WHERE u.id = ANY(%(unit_ids)s::uuid[]) AND u.embedding {cosine} %(vector)s::{vector_type} <> 'NaN';

-- name: search_critical
-- Units of layer 0, nearest first, those without a vector last; and how many there are.
WITH critical AS MATERIALIZED (
    SELECT u.id, nullif(u.embedding {cosine} %(vector)s::{vector_type}, 'NaN') AS distance
    FROM {ledger} l
    JOIN {units} u ON u.id = l.unit_id
    WHERE l.bank_id = %(bank)s AND l.layer = 0 AND u.bank_id = {bank} AND {layer} = 0
)
SELECT id::text AS id, distance, count(*) OVER () AS n_critical
FROM critical
ORDER BY distance NULLS LAST, id
LIMIT %(limit)s;

-- name: search_closets
-- The nearest closets, and whether every source still reads as when it was summarised.
WITH near AS MATERIALIZED (
    SELECT c.id, c.embedding {cosine} %(vector)s::{vector_type} AS distance
    FROM {closets} c
    WHERE c.bank_id = {bank} AND c.status = 'fresh' AND c.embedding IS NOT NULL
      AND (%(rooms)s::text[] IS NULL OR c.room = ANY(%(rooms)s::text[]))
      AND (%(halls)s::text[] IS NULL OR c.hall = ANY(%(halls)s::text[]))
    ORDER BY 2, 1
    LIMIT %(limit)s
)
SELECT n.id::text AS id, n.distance,
       ARRAY(SELECT s.unit_id::text FROM {closet_sources} s WHERE s.closet_id = n.id ORDER BY s.rank) AS unit_ids,
       NOT {is_stale} AS is_fresh
FROM near n
JOIN {closets} c ON c.id = n.id
WHERE n.distance <> 'NaN' AND EXISTS (SELECT FROM {closet_sources} s WHERE s.closet_id = n.id)
ORDER BY n.distance, n.id;

-- name: search_uncovered
-- Units that rest in the archive layer on behalf of closets that are shown no more; until a run gives them their layer
-- back they speak for themselves.
SELECT DISTINCT u.id::text AS id, u.embedding {cosine} %(vector)s::{vector_type} AS distance
FROM {closet_sources} s
JOIN {units} u ON u.id = s.unit_id
JOIN {ledger} l ON l.unit_id = u.id
WHERE s.closet_id = ANY(%(closet_ids)s::uuid[]) AND s.replaced IS NOT NULL AND l.layer_source = 'archived'
  AND {layer} = 3 AND u.bank_id = {bank}
  AND (%(rooms)s::text[] IS NULL OR coalesce(u.room, 'general') = ANY(%(rooms)s::text[]))
  AND (%(halls)s::text[] IS NULL OR coalesce(u.hall, 'fact') = ANY(%(halls)s::text[]))
  AND u.embedding {cosine} %(vector)s::{vector_type} <> 'NaN';

-- name: select_units
-- Units with their labels as they stand, and what else their table tells.
SELECT u.id::text AS unit_id, u.bank_id::text AS bank_id, u.{text} AS text,
       coalesce(u.room, 'general') AS room, coalesce(u.hall, 'fact') AS hall, {layer} AS layer, {extras} AS extras
FROM {units} u
WHERE u.id = ANY(%(unit_ids)s::uuid[]);

-- name: select_closets
SELECT c.id::text AS id, c.bank_id::text AS bank_id, c.room, c.hall, c.title, c.summary AS text, c.model,
       c.is_extractive, c.n_read, c.n_sources, c.created_at
FROM {closets} c
WHERE c.id = ANY(%(closet_ids)s::uuid[]);

-- name: follow_tunnels
-- One hop: from units, by the order of the list, to the other ends that the caller may see.
WITH near AS (
    SELECT n.id, n.rank FROM unnest(%(unit_ids)s::uuid[]) WITH ORDINALITY AS n(id, rank)
), hop AS (
    SELECT n.rank, n.id AS near_id, t.target_unit_id AS far_id, t.id AS tunnel_id, t.relationship, t.score, t.method
    FROM near n JOIN {tunnels} t ON t.source_unit_id = n.id
    UNION ALL
    SELECT n.rank, n.id, t.source_unit_id, t.id, t.relationship, t.score, t.method
    FROM near n JOIN {tunnels} t ON t.target_unit_id = n.id
)
SELECT h.tunnel_id::text AS tunnel_id, h.relationship, h.score, h.method, h.near_id::text AS near_id,
       h.far_id::text AS far_id
FROM hop h
JOIN {units} u ON u.id = h.far_id
WHERE (%(banks)s::text[] IS NULL OR u.bank_id::text = ANY(%(banks)s::text[]))
  AND {layer} <= %(max_layer)s
  AND h.far_id <> ALL (%(unit_ids)s::uuid[])
ORDER BY h.rank, h.score DESC NULLS LAST, h.tunnel_id
LIMIT %(limit)s;
