-- name: register_bank
-- A bank comes into being with its first unit, as in Hindsight.
INSERT INTO {banks} ({bank_key}) VALUES (%(bank)s::{bank_type}) ON CONFLICT DO NOTHING;

-- name: lock_documents
-- Two calls that replace a document follow one another.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(d.name, 0))
FROM (SELECT DISTINCT jsonb_build_array('rcll document', %(schema)s::text, %(bank)s::text, document_id)::text AS name
      FROM unnest(%(documents)s::text[]) AS document_id ORDER BY 1) d;

-- name: replace_documents
-- Units of documents that come again: those whose text comes too stay, with whatever somebody has set on them.
WITH coming AS (
    SELECT d.document_id, d.text FROM unnest(%(documents)s::text[], %(texts)s::text[]) AS d(document_id, text)
), gone AS (
    DELETE FROM {units} u
    WHERE u.bank_id = %(bank)s::{bank_type} AND u.document_id IN (SELECT document_id FROM coming)
      AND NOT EXISTS (SELECT FROM coming c WHERE c.document_id = u.document_id AND c.text = u.{text})
)
SELECT u.document_id, u.{text} AS text, min(u.id::text) AS unit_id
FROM {units} u JOIN coming c ON c.document_id = u.document_id AND c.text = u.{text}
WHERE u.bank_id = %(bank)s::{bank_type}
GROUP BY 1, 2;

-- name: insert_units
-- Units of one call with their labels; columns and values of what else the table has.
INSERT INTO {units} (id, bank_id, {text}, embedding, room, hall, layer{columns})
SELECT i.unit_id, %(bank)s::{bank_type}, i.text, i.embedding::{vector_type}, i.room, i.hall,
       i.stored_layer::{layer_type}{values}
FROM unnest(%(unit_id)s::uuid[], %(text)s::text[], %(embedding)s::text[], %(room)s::text[], %(hall)s::text[],
            %(stored_layer)s::text[], %(context)s::text[], %(happened_at)s::timestamptz[], %(document_id)s::text[],
            %(tags)s::jsonb[], %(metadata)s::jsonb[])
  AS i(unit_id, text, embedding, room, hall, stored_layer, context, happened_at, document_id, tags, metadata);

-- name: file_new_units
-- Ledger rows of units that were just inserted.
INSERT INTO {ledger} (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source, room_rule, hall_rule,
                      layer_rule, room_tier, hall_tier, language, taxonomy_hash, text_hash)
SELECT j.unit_id, %(bank)s, j.room, j.hall, j.layer, j.room_source, j.hall_source, j.layer_source, j.room_rule,
       j.hall_rule, j.layer_rule, j.room_tier, j.hall_tier, j.language, %(taxonomy_hash)s, j.text_hash
FROM {new_labels};

-- name: new_labels
-- Fragment: labels of one call as a table.
unnest(%(unit_id)s::uuid[], %(room)s::text[], %(hall)s::text[], %(layer)s::smallint[], %(stored_layer)s::text[],
       %(room_source)s::text[], %(hall_source)s::text[], %(layer_source)s::text[], %(room_rule)s::text[],
       %(hall_rule)s::text[], %(layer_rule)s::text[], %(room_tier)s::text[], %(hall_tier)s::text[],
       %(language)s::text[], %(text_hash)s::text[])
  AS j(unit_id, room, hall, layer, stored_layer, room_source, hall_source, layer_source, room_rule, hall_rule,
       layer_rule, room_tier, hall_tier, language, text_hash)
;

-- name: unlabelled_units
-- Texts of given units of a bank that nobody has filed as they read now, or of all of them.
SELECT u.id::text AS unit_id, u.{text} AS text
FROM {units} u
LEFT JOIN {ledger} l ON l.unit_id = u.id
WHERE u.bank_id = %(bank)s::{bank_type} AND u.id = ANY(%(unit_ids)s::uuid[])
  AND (%(all_units)s OR l.unit_id IS NULL OR l.taxonomy_hash IS NULL
       OR l.text_hash IS DISTINCT FROM left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32));

-- name: document_units
-- Units that came from a document.
SELECT u.id::text FROM {units} u
WHERE u.bank_id = %(bank)s::{bank_type} AND u.document_id = ANY(%(documents)s::text[])
ORDER BY u.id;

-- name: is_held
-- Fragment: whether an undo holds the label of a unit: until it reads differently or other rules come.
(l.is_held AND l.taxonomy_hash = %(taxonomy_hash)s AND l.text_hash IS NOT DISTINCT FROM j.text_hash)
;

-- name: label_units
-- Labels for units that stand already: what the call sets as explicit goes in; else what somebody has set stays, field
-- by field (the ledger says so, or the value is neither a default nor one of ours, as the ledger or the undo log know),
-- and what an undo holds; the rules decide the rest. Units that read differently by now are
-- left to the next call.
WITH found AS MATERIALIZED (
    SELECT j.*, u.room AS old_room, u.hall AS old_hall, u.layer::text AS old_layer, u.bank_id::text AS bank_id,
           j.room_source <> 'explicit' AND (l.room_source = 'explicit' OR {is_held}
               OR NOT (coalesce(u.room, 'general') = 'general' OR u.room IS NOT DISTINCT FROM l.room OR EXISTS (
                   SELECT FROM {changes} c WHERE c.unit_id = u.id AND c.room = u.room))) AS keeps_room,
           j.hall_source <> 'explicit' AND (l.hall_source = 'explicit' OR {is_held}
               OR NOT (coalesce(u.hall, 'fact') = 'fact' OR u.hall IS NOT DISTINCT FROM l.hall OR EXISTS (
                   SELECT FROM {changes} c WHERE c.unit_id = u.id AND c.hall = u.hall))) AS keeps_hall,
           j.layer_source <> 'explicit' AND (l.layer_source IN ('explicit', 'archived') OR {is_held}
               OR NOT ({number} = 2 OR {number} IS NOT DISTINCT FROM l.layer OR EXISTS (
                   SELECT FROM {changes} c WHERE c.unit_id = u.id AND c.layer = u.layer::text))) AS keeps_layer,
           {number} AS old_number, l.room_rule AS old_room_rule, l.hall_rule AS old_hall_rule,
           l.layer_rule AS old_layer_rule, l.room_source AS old_room_source, l.hall_source AS old_hall_source,
           l.layer_source AS old_layer_source, coalesce({is_held}, false) AS is_held
    FROM {new_labels}
    JOIN {units} u ON u.id = j.unit_id
    LEFT JOIN {ledger} l ON l.unit_id = j.unit_id
    WHERE left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) = j.text_hash
    ORDER BY u.id
    FOR NO KEY UPDATE OF u
), decided AS (
    SELECT f.unit_id, f.bank_id, f.text_hash, f.room_tier, f.hall_tier, f.language, f.old_room, f.old_hall, f.old_layer,
           CASE WHEN f.keeps_room THEN f.old_room ELSE f.room END AS room,
           CASE WHEN f.keeps_hall THEN f.old_hall ELSE f.hall END AS hall,
           CASE WHEN f.keeps_layer THEN f.old_layer ELSE f.stored_layer END AS stored_layer,
           CASE WHEN f.keeps_layer THEN f.old_number ELSE f.layer END AS layer,
           CASE WHEN f.keeps_room IS NOT TRUE THEN f.room_source WHEN f.is_held THEN f.old_room_source
                ELSE 'explicit' END AS room_source,
           CASE WHEN f.keeps_hall IS NOT TRUE THEN f.hall_source WHEN f.is_held THEN f.old_hall_source
                ELSE 'explicit' END AS hall_source,
           CASE WHEN f.keeps_layer IS NOT TRUE THEN f.layer_source WHEN f.is_held OR f.old_layer_source = 'archived'
                THEN f.old_layer_source ELSE 'explicit' END AS layer_source,
           CASE WHEN f.keeps_room THEN f.old_room_rule ELSE f.room_rule END AS room_rule,
           CASE WHEN f.keeps_hall THEN f.old_hall_rule ELSE f.hall_rule END AS hall_rule,
           CASE WHEN f.keeps_layer THEN f.old_layer_rule ELSE f.layer_rule END AS layer_rule, f.is_held
    FROM found f
), written AS (
    UPDATE {units} u
       SET room = d.room, hall = d.hall, layer = d.stored_layer::{layer_type}
      FROM decided d
     WHERE u.id = d.unit_id
       AND (d.old_room, d.old_hall, d.old_layer) IS DISTINCT FROM (d.room, d.hall, d.stored_layer)
), filed AS (
    INSERT INTO {ledger} AS l (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source, room_rule,
                               hall_rule, layer_rule, room_tier, hall_tier, language, taxonomy_hash, text_hash,
                               is_held)
    SELECT unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source, room_rule, hall_rule,
           layer_rule, room_tier, hall_tier, language, %(taxonomy_hash)s, text_hash, is_held
    FROM decided
    ON CONFLICT (unit_id) DO UPDATE
       SET bank_id = excluded.bank_id, room = excluded.room, hall = excluded.hall, layer = excluded.layer,
           room_source = excluded.room_source, hall_source = excluded.hall_source, layer_source = excluded.layer_source,
           room_rule = excluded.room_rule, hall_rule = excluded.hall_rule, layer_rule = excluded.layer_rule,
           room_tier = excluded.room_tier, hall_tier = excluded.hall_tier, language = excluded.language,
           taxonomy_hash = excluded.taxonomy_hash, text_hash = excluded.text_hash, labelled_at = now(),
           is_held = excluded.is_held
)
SELECT unit_id::text, room, hall, layer, room_source, hall_source, layer_source, room_rule, hall_rule, layer_rule
FROM decided
ORDER BY unit_id;
