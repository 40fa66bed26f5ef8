-- name: bound_export
-- The server ends an export that hangs, joins units and ledger in memory, and tells times in UTC.
SELECT set_config('statement_timeout', %(seconds)s::text || 's', true),
       set_config('idle_in_transaction_session_timeout', %(seconds)s::text || 's', true),
       set_config('work_mem', '64MB', true), set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO', true);

-- name: export_units
-- Units of some banks beside what the ledger says of them; times in microseconds since 1970.
SELECT u.id AS unit_id, u.bank_id, {shown_text} AS text, length(u.{text}) AS text_chars, h.text_hash,
       u.room, u.hall, substring(u.layer::text FROM '^\s*[lL]?(\d{{1,4}})\s*$') AS layer,
       l.room_source, l.hall_source, l.layer_source, l.room_rule, l.hall_rule, l.layer_rule,
       l.room_tier, l.hall_tier, l.language, l.taxonomy_hash, l.run_id,
       (extract(epoch FROM l.labelled_at) * 1000000)::bigint AS labelled_at,
       coalesce(l.is_held, false) AS is_held, l.text_hash <> h.text_hash AS is_stale,
       (extract(epoch FROM {happened_at}) * 1000000)::bigint AS happened_at,
       (extract(epoch FROM {created_at}) * 1000000)::bigint AS created_at
FROM {units} u
LEFT JOIN {ledger} l ON l.unit_id = u.id
CROSS JOIN LATERAL (
    SELECT left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) AS text_hash) h
WHERE u.bank_id = ANY(%(banks)s::{bank_type}[]);

-- name: export_bare_units
-- The same of a database that rcll has not migrated.
SELECT u.id AS unit_id, u.bank_id, {shown_text} AS text, length(u.{text}) AS text_chars,
       left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) AS text_hash,
       {room} AS room, {hall} AS hall, substring({layer} FROM '^\s*[lL]?(\d{{1,4}})\s*$') AS layer,
       NULL AS room_source, NULL AS hall_source, NULL AS layer_source,
       NULL AS room_rule, NULL AS hall_rule, NULL AS layer_rule,
       NULL AS room_tier, NULL AS hall_tier, NULL AS language, NULL AS taxonomy_hash, NULL AS run_id,
       NULL AS labelled_at, false AS is_held, NULL AS is_stale,
       (extract(epoch FROM {happened_at}) * 1000000)::bigint AS happened_at,
       (extract(epoch FROM {created_at}) * 1000000)::bigint AS created_at
FROM {units} u
WHERE u.bank_id = ANY(%(banks)s::{bank_type}[]);

-- name: export_closets
SELECT c.id AS closet_id, c.bank_id, c.room, c.hall,
       CASE WHEN %(texts)s THEN c.title END AS title, CASE WHEN %(texts)s THEN c.summary END AS summary,
       CASE WHEN c.status <> 'fresh' THEN c.status
            WHEN EXISTS (
                SELECT FROM {closet_sources} s
                LEFT JOIN {units} u ON u.id = s.unit_id
                WHERE s.closet_id = c.id AND (u.id IS NULL OR u.room IS DISTINCT FROM c.room
                  OR left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) IS DISTINCT FROM s.text_hash))
            THEN 'stale' ELSE 'fresh' END AS status,
       c.model, c.is_extractive, c.n_read, c.n_sources, c.run_id,
       (extract(epoch FROM c.updated_at) * 1000000)::bigint AS updated_at
FROM {closets} c
WHERE c.bank_id = ANY(%(banks)s::{bank_type}[])
ORDER BY c.bank_id, c.room, c.id;

-- name: export_closet_sources
SELECT s.closet_id, c.bank_id, s.unit_id, s.rank,
       (u.id IS NULL OR u.room IS DISTINCT FROM c.room
        OR left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) IS DISTINCT FROM s.text_hash) AS is_stale
FROM {closets} c
JOIN {closet_sources} s ON s.closet_id = c.id
LEFT JOIN {units} u ON u.id = s.unit_id
WHERE c.bank_id = ANY(%(banks)s::{bank_type}[])
ORDER BY s.closet_id, s.rank;

-- name: export_tunnels
-- Each tunnel once, with the bank of its source; the bank of an end is that of its unit.
SELECT t.id AS tunnel_id, a.bank_id, t.source_unit_id, b.bank_id AS target_bank_id, t.target_unit_id,
       a.room, b.room AS target_room, t.relationship, t.score, t.method, t.run_id,
       (extract(epoch FROM t.created_at) * 1000000)::bigint AS created_at
FROM {tunnels} t
JOIN {units} a ON a.id = t.source_unit_id
JOIN {units} b ON b.id = t.target_unit_id
WHERE a.bank_id = ANY(%(banks)s::{bank_type}[])
ORDER BY t.id;

-- name: export_changes
SELECT run_id, unit_id, bank_id, old_room, old_hall, old_layer, room, hall, layer,
       old_ledger->>'taxonomy_hash' AS old_taxonomy_hash,
       (extract(epoch FROM changed_at) * 1000000)::bigint AS changed_at
FROM {changes}
WHERE bank_id = ANY(%(banks)s::text[]);

-- name: export_runs
SELECT run_id, kind, status, (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
       (extract(epoch FROM finished_at) * 1000000)::bigint AS finished_at,
       taxonomy_hash, rcll_version, parameters, summary
FROM {runs}
ORDER BY started_at, run_id;
