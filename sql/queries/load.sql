-- name: planned_rows
-- Fragment: the planned labels of one batch, as a table.
SELECT *
FROM unnest(%(unit_id)s::uuid[], %(bank_id)s::text[], %(text_hash)s::text[],
            %(old_room)s::text[], %(old_hall)s::text[], %(old_layer)s::text[],
            %(room)s::text[], %(hall)s::text[], %(layer)s::smallint[], %(stored_layer)s::text[],
            %(room_source)s::text[], %(hall_source)s::text[], %(layer_source)s::text[],
            %(room_rule)s::text[], %(hall_rule)s::text[], %(layer_rule)s::text[],
            %(room_tier)s::text[], %(hall_tier)s::text[], %(language)s::text[])
  AS t(unit_id, bank_id, text_hash, old_room, old_hall, old_layer, room, hall, layer, stored_layer,
       room_source, hall_source, layer_source, room_rule, hall_rule, layer_rule,
       room_tier, hall_tier, language)
;

-- name: ledger_conflict
-- Fragment: a unit has one ledger row; a later label replaces it. How a label became explicit stays known.
ON CONFLICT (unit_id) DO UPDATE
   SET bank_id = excluded.bank_id, room = excluded.room, hall = excluded.hall, layer = excluded.layer,
       room_source = excluded.room_source, hall_source = excluded.hall_source,
       layer_source = excluded.layer_source,
       room_rule = CASE WHEN excluded.room_source = 'explicit' AND l.room_source = 'explicit'
                        THEN l.room_rule ELSE excluded.room_rule END,
       hall_rule = CASE WHEN excluded.hall_source = 'explicit' AND l.hall_source = 'explicit'
                        THEN l.hall_rule ELSE excluded.hall_rule END,
       layer_rule = CASE WHEN excluded.layer_source = 'explicit' AND l.layer_source = 'explicit'
                         THEN l.layer_rule ELSE excluded.layer_rule END,
       room_tier = excluded.room_tier, hall_tier = excluded.hall_tier, language = excluded.language,
       taxonomy_hash = excluded.taxonomy_hash, text_hash = excluded.text_hash,
       run_id = excluded.run_id, labelled_at = excluded.labelled_at, is_held = excluded.is_held
;

-- name: tuple_columns
-- Columns of memory_units: bytes of a value, -1 where they differ; storage 'e' goes to TOAST as soon as a row is
-- too long.
SELECT a.attname, a.attlen, a.attstorage = 'e' AS is_external
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = %(units)s::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;

-- name: locate_tuples
-- Page and estimated size of units, for COPY. Values that may be moved out have been where the row would be longer
-- than 2,032 bytes with them. (From PostgreSQL 17 on pg_column_toast_chunk_id knows; the estimate costs less than
-- one point of HOT share.)
SELECT p.id, p.place, p.short_bytes + CASE WHEN p.short_bytes + p.external_bytes <= 2032
                                           THEN p.external_bytes ELSE 18 END
FROM (
    SELECT u.id, u.ctid::text AS place, {short_bytes} AS short_bytes, {external_bytes} AS external_bytes
    FROM {units} u
    WHERE u.id = ANY(%(unit_ids)s::uuid[])) p;

-- name: begin_write
-- First statement of a write transaction. A client that is stopped inside one must not keep its locks, and a
-- commit need not reach the disk before locks are freed: after a crash of the server the next run finds the rest.
-- Counts what this session has updated and not reported yet.
SELECT pg_catalog.set_config('lock_timeout', '2s', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', '5s', true),
       pg_catalog.set_config('synchronous_commit', 'off', true),
       pg_catalog.pg_stat_get_xact_tuples_updated(%(units)s::regclass),
       pg_catalog.pg_stat_get_xact_tuples_hot_updated(%(units)s::regclass);

-- name: count_updates
SELECT pg_catalog.pg_stat_get_xact_tuples_updated(%(units)s::regclass),
       pg_catalog.pg_stat_get_xact_tuples_hot_updated(%(units)s::regclass);

-- name: apply_labels
-- One short transaction's worth of labels: lock the rows that nobody else holds, write those that still
-- read as planned, file them in the ledger, remember the old values for undo, and say what became of each.
WITH input AS (
    {planned_rows}
), locked AS (
    SELECT u.id, u.bank_id::text AS bank_id, u.room::text AS room, u.hall::text AS hall, u.layer::text AS layer,
           left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) AS text_hash
    FROM {units} u
    JOIN input i ON i.unit_id = u.id
    ORDER BY u.id
    FOR NO KEY UPDATE OF u SKIP LOCKED
), judged AS (
    SELECT i.*,
           CASE WHEN k.id IS NULL THEN
                     CASE WHEN EXISTS (SELECT FROM {units} x WHERE x.id = i.unit_id) THEN 'locked' ELSE 'gone' END
                WHEN k.text_hash IS DISTINCT FROM i.text_hash OR k.bank_id <> i.bank_id THEN 'edited'
                WHEN (k.room, k.hall, k.layer) IS NOT DISTINCT FROM (i.room, i.hall, i.stored_layer) THEN 'already'
                WHEN (k.room, k.hall, k.layer) IS DISTINCT FROM (i.old_room, i.old_hall, i.old_layer)
                     THEN 'relabelled'
                ELSE 'written' END AS outcome
    FROM input i
    LEFT JOIN locked k ON k.id = i.unit_id
), written AS (
    UPDATE {units} u
       SET room = j.room, hall = j.hall, layer = j.stored_layer::{layer_type}
      FROM judged j
     WHERE u.id = j.unit_id AND j.outcome = 'written'
), logged AS (
    INSERT INTO {changes} (run_id, unit_id, bank_id, old_room, old_hall, old_layer, room, hall, layer, old_ledger)
    SELECT %(run_id)s, j.unit_id, j.bank_id, j.old_room, j.old_hall, j.old_layer, j.room, j.hall, j.stored_layer,
           to_jsonb(l)
    FROM judged j
    LEFT JOIN {ledger} l ON l.unit_id = j.unit_id
    WHERE j.outcome = 'written'
    ON CONFLICT (run_id, unit_id) DO NOTHING
), filed AS (
    INSERT INTO {ledger} AS l (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source,
                          room_rule, hall_rule, layer_rule, room_tier, hall_tier, language,
                          taxonomy_hash, text_hash, run_id, labelled_at, is_held)
    SELECT unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source,
           room_rule, hall_rule, layer_rule, room_tier, hall_tier, language,
           %(taxonomy_hash)s, text_hash, %(run_id)s, now(), %(is_held)s
    FROM judged
    WHERE outcome IN ('written', 'already')
    {ledger_conflict}
)
SELECT unit_id::text, outcome FROM judged;

-- name: record_labels
-- Ledger rows for units whose stored label is already right: the units themselves are only read.
INSERT INTO {ledger} AS l (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source,
                      room_rule, hall_rule, layer_rule, room_tier, hall_tier, language,
                      taxonomy_hash, text_hash, run_id, labelled_at, is_held)
SELECT i.unit_id, i.bank_id, i.room, i.hall, i.layer, i.room_source, i.hall_source, i.layer_source,
       i.room_rule, i.hall_rule, i.layer_rule, i.room_tier, i.hall_tier, i.language,
       %(taxonomy_hash)s, i.text_hash, %(run_id)s, now(), %(is_held)s
FROM ({planned_rows}) i
JOIN {units} u ON u.id = i.unit_id
{ledger_conflict}
RETURNING unit_id::text, 'recorded' AS outcome;

-- name: label_indexes
-- Indexes that hold a label or ask for one: no update of that label can be HOT. BRIN no longer minds since
-- PostgreSQL 16.
SELECT DISTINCT i.indexrelid::regclass::text AS name
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_am m ON m.oid = c.relam
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attname IN ('room', 'hall', 'layer')
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
                           AND d.refobjid = i.indrelid AND d.refobjsubid = a.attnum
WHERE i.indrelid = %(units)s::regclass
  AND NOT (m.amname = 'brin' AND pg_catalog.current_setting('server_version_num')::int >= 160000)
ORDER BY 1;

-- name: horizon_holders
-- What keeps old tuple versions from being pruned here: snapshots of this database and of standbys, prepared
-- transactions, replication slots. VACUUM itself does not.
SELECT 'session ' || a.pid || ' (' || coalesce(nullif(a.application_name, ''), a.backend_type) || ')' AS who,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float AS seconds
FROM pg_catalog.pg_stat_activity a
WHERE a.pid <> pg_catalog.pg_backend_pid()
  AND (a.datname = pg_catalog.current_database() OR a.backend_type = 'walsender')
  AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
  AND a.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_vacuum v WHERE v.pid = a.pid)
UNION ALL
SELECT 'prepared transaction ' || left(p.gid, 60), extract(epoch FROM clock_timestamp() - p.prepared)::float
FROM pg_catalog.pg_prepared_xacts p
WHERE p.database = pg_catalog.current_database()
UNION ALL
SELECT 'replication slot ' || s.slot_name, NULL
FROM pg_catalog.pg_replication_slots s
WHERE s.xmin IS NOT NULL AND age(s.xmin) > %(transactions)s
ORDER BY 2 DESC NULLS LAST;

-- name: vacuum_units
-- Frees the space of moved tuples for the next ranges; indexes are left to autovacuum, and so is the end of the
-- file, whose truncation would lock out everybody.
VACUUM (INDEX_CLEANUP off, TRUNCATE off, SKIP_LOCKED) {units};

-- name: cancel_vacuum
-- Cancels our VACUUM, known by its application name, if anybody waits for a lock on the table; behind PgBouncer a
-- client does not know its backend.
SELECT pg_catalog.pg_cancel_backend(a.pid)
FROM pg_catalog.pg_stat_activity a
WHERE a.application_name = %(mark)s AND a.state = 'active'
  AND EXISTS (SELECT FROM pg_catalog.pg_locks l
              WHERE l.relation = %(units)s::regclass AND NOT l.granted AND l.database = (
                    SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()));
