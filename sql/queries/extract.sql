-- name: count_units
-- Units per bank, for partitions and estimates.
SELECT u.bank_id::text AS bank_id, count(*) AS n_units
FROM {units} u
WHERE %(banks)s::text[] IS NULL OR u.bank_id = ANY(%(banks)s::{bank_type}[])
GROUP BY 1
ORDER BY 1;

-- name: count_unfiled
-- Units, and those of them that the given rules have not filed; an estimate, as edited texts are not looked at.
SELECT count(*) AS n_units, count(*) FILTER (WHERE l.taxonomy_hash IS DISTINCT FROM %(taxonomy_hash)s) AS n_unfiled
FROM {units} u
LEFT JOIN {ledger} l ON l.unit_id = u.id
WHERE %(banks)s::text[] IS NULL OR u.bank_id = ANY(%(banks)s::{bank_type}[]);

-- name: heap_pages
SELECT (pg_catalog.pg_relation_size(%(units)s::regclass)
        / pg_catalog.current_setting('block_size')::bigint)::bigint AS n_pages;

-- name: list_banks
-- Banks that are registered or bear units.
SELECT {bank_key}::text AS bank_id FROM {banks}
UNION
SELECT DISTINCT bank_id::text FROM {units}
ORDER BY 1;

-- name: select_units_page
-- Units, as {{chosen}} says which, beside what the ledger says. Texts travel only where rules must read them: units that
-- are new, edited or labelled by other rules. The hash of the text tells more than updated_at > labelled_at would: it
-- passes over what was stamped and not edited, and finds what was edited and not stamped.
-- "ours" asks the undo log only about values that differ from the ledger.
SELECT u.id::text AS unit_id,
       u.bank_id::text AS bank_id,
       CASE WHEN l.unit_id IS NULL OR l.text_hash IS DISTINCT FROM h.text_hash
              OR l.taxonomy_hash IS DISTINCT FROM %(taxonomy_hash)s OR %(all_texts)s
            THEN u.{text} END AS text,
       h.text_hash,
       u.room::text AS room,
       u.hall::text AS hall,
       u.layer::text AS layer,
       l.unit_id IS NOT NULL AS is_known,
       l.room AS ledger_room,
       l.hall AS ledger_hall,
       l.layer AS ledger_layer,
       l.room_source, l.hall_source, l.layer_source,
       l.room_rule AS ledger_room_rule, l.hall_rule AS ledger_hall_rule, l.layer_rule AS ledger_layer_rule,
       l.room_tier AS ledger_room_tier, l.hall_tier AS ledger_hall_tier, l.language AS ledger_language,
       l.text_hash AS ledger_text_hash,
       l.taxonomy_hash AS ledger_taxonomy_hash,
       l.is_held,
       coalesce(u.room IS DISTINCT FROM l.room AND EXISTS (
           SELECT FROM {changes} c WHERE c.unit_id = u.id AND c.room = u.room), false) AS room_ours,
       coalesce(u.hall IS DISTINCT FROM l.hall AND EXISTS (
           SELECT FROM {changes} c WHERE c.unit_id = u.id AND c.hall = u.hall), false) AS hall_ours,
       coalesce(u.layer::text IS DISTINCT FROM l.layer::text AND EXISTS (
           SELECT FROM {changes} c WHERE c.unit_id = u.id AND c.layer = u.layer::text), false) AS layer_ours
FROM {units} u
LEFT JOIN {ledger} l ON l.unit_id = u.id
CROSS JOIN LATERAL (
    SELECT left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) AS text_hash) h
WHERE (%(banks)s::text[] IS NULL OR u.bank_id = ANY(%(banks)s::{bank_type}[]))
  AND {chosen};

-- name: units_after
-- Fragment: one keyset page.
u.id > %(after)s::uuid
ORDER BY u.id
LIMIT %(limit)s;

-- name: unfiled_units_after
-- Fragment: one keyset page of units that today's rules have not filed.
u.id > %(after)s::uuid AND l.taxonomy_hash IS DISTINCT FROM %(taxonomy_hash)s
ORDER BY u.id
LIMIT %(limit)s;

-- name: units_of_pages
-- Fragment: units that lie on a range of heap pages, by a TID range scan.
u.ctid >= %(first)s::tid AND u.ctid < %(last)s::tid;

-- name: select_bare_units_page
-- The same page on a database that rcll has not migrated: labels read as the defaults they will get.
SELECT u.id::text AS unit_id,
       u.bank_id::text AS bank_id,
       u.{text} AS text,
       left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) AS text_hash,
       {room} AS room, {hall} AS hall, {layer} AS layer,
       false AS is_known,
       NULL AS ledger_room, NULL AS ledger_hall, NULL AS ledger_layer,
       NULL AS room_source, NULL AS hall_source, NULL AS layer_source,
       NULL AS ledger_room_rule, NULL AS ledger_hall_rule, NULL AS ledger_layer_rule,
       NULL AS ledger_room_tier, NULL AS ledger_hall_tier, NULL AS ledger_language,
       NULL AS ledger_text_hash, NULL AS ledger_taxonomy_hash, NULL AS is_held,
       false AS room_ours, false AS hall_ours, false AS layer_ours
FROM {units} u
WHERE (%(banks)s::text[] IS NULL OR u.bank_id = ANY(%(banks)s::{bank_type}[]))
  AND u.id > %(after)s::uuid
ORDER BY u.id
LIMIT %(limit)s;

-- name: select_members
-- Texts and dates of given units that still stand in the given room, for closets and tunnels.
SELECT u.id::text AS unit_id,
       u.bank_id::text AS bank_id,
       {hall} AS hall,
       u.{text} AS text,
       left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) AS text_hash,
       {happened_at} AS happened_at
FROM {units} u
WHERE u.id = ANY(%(unit_ids)s::uuid[]) AND {in_room}
ORDER BY u.id;

-- name: copy_embeddings
-- Embeddings of given units beside their place in the list, for binary COPY; units without one are left out. In the
-- order of the heap, as vectors lie in TOAST in about the same; they are fetched after the sort.
SELECT i.n, u.embedding
FROM unnest(%(unit_ids)s::uuid[]) WITH ORDINALITY i(id, n)
JOIN {units} u ON u.id = i.id
WHERE u.embedding IS NOT NULL
ORDER BY u.ctid;
