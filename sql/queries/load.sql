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

-- name: tuple_columns
-- Columns of memory_units less the labels, which a tuple older than they does not hold: whether values differ in
-- length, and whether they are the first to go to TOAST when a row is too long.
SELECT a.attname, a.attlen = -1 AS is_varying, a.attstorage = 'e' AS is_external
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = %(units)s::regclass AND a.attnum > 0 AND NOT a.attisdropped
  AND a.attname NOT IN ('room', 'hall', 'layer')
ORDER BY a.attnum;

-- name: locate_tuples
-- Page and size of units, for COPY. The row is measured as PostgreSQL would store it, less what is external: that
-- is in TOAST where the row would be longer than 2,032 bytes with it. (From PostgreSQL 17 on
-- pg_column_toast_chunk_id knows.)
SELECT p.id, p.place, p.row_bytes + CASE WHEN p.row_bytes + p.external_bytes <= 2032 THEN p.external_bytes ELSE 18 END
FROM (
    SELECT u.id, u.ctid::text AS place, pg_column_size(ROW({columns})) AS row_bytes, {external_bytes} AS external_bytes
    FROM {units} u
    WHERE u.id = ANY(%(unit_ids)s::uuid[])) p;

-- name: begin_write
-- First statement of a write transaction. A client that is stopped inside one must not keep its locks, and a
-- commit need not reach the disk before locks are freed: after a crash of the server the next run finds the rest.
-- Every row is reached by a key; the planner would read whole tables whose statistics are behind, as those of a
-- ledger that is being filled. Counts what this session has updated and not reported yet.
SELECT pg_catalog.pg_stat_get_xact_tuples_updated(%(units)s::regclass) AS n_updated,
       pg_catalog.pg_stat_get_xact_tuples_hot_updated(%(units)s::regclass) AS n_hot,
       pg_catalog.set_config('lock_timeout', '2s', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', '5s', true),
       pg_catalog.set_config('synchronous_commit', 'off', true),
       pg_catalog.set_config('enable_seqscan', 'off', true),
       pg_catalog.set_config('enable_bitmapscan', 'off', true),
       pg_catalog.set_config('enable_hashjoin', 'off', true),
       pg_catalog.set_config('enable_mergejoin', 'off', true);

-- name: count_updates
SELECT pg_catalog.pg_stat_get_xact_tuples_updated(%(units)s::regclass),
       pg_catalog.pg_stat_get_xact_tuples_hot_updated(%(units)s::regclass);

-- name: lock_units
-- Rows that nobody else holds. Statements after it see what those who held them before have committed, the ledger
-- rows of "rcll label" among it.
SELECT u.id::text
FROM {units} u
WHERE u.id = ANY(%(unit_ids)s::uuid[])
ORDER BY u.id
FOR NO KEY UPDATE OF u SKIP LOCKED;

-- name: judged_rows
-- Fragment: planned labels of locked units, whether the ledger has a row, and what becomes of each: written only
-- where the unit still reads as planned, and nobody has set a label through rcll since.
SELECT i.*, l.unit_id IS NOT NULL AS is_known, to_jsonb(l) AS old_ledger,
       CASE WHEN left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) IS DISTINCT FROM i.text_hash
              OR u.bank_id::text <> i.bank_id THEN 'edited'
            WHEN (l.room_source = 'explicit' AND i.room_source <> 'explicit')
              OR (l.hall_source = 'explicit' AND i.hall_source <> 'explicit')
              OR (l.layer_source = 'explicit' AND i.layer_source <> 'explicit') THEN 'relabelled'
            WHEN (u.room::text, u.hall::text, u.layer::text) IS NOT DISTINCT FROM (i.room, i.hall, i.stored_layer)
                 THEN 'already'
            WHEN (u.room::text, u.hall::text, u.layer::text) IS DISTINCT FROM (i.old_room, i.old_hall, i.old_layer)
                 THEN 'relabelled'
            ELSE 'written' END AS outcome
FROM ({planned_rows}) i
JOIN {units} u ON u.id = i.unit_id
LEFT JOIN {ledger} l ON l.unit_id = i.unit_id
;

-- name: ledger_columns
-- Fragment: columns of the ledger in the order of ledger_values.
unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source, room_rule, hall_rule, layer_rule,
room_tier, hall_tier, language, taxonomy_hash, text_hash, run_id, labelled_at, is_held
;

-- name: ledger_values
-- Fragment: the ledger row of a planned label j.
j.unit_id, j.bank_id, j.room, j.hall, j.layer, j.room_source, j.hall_source, j.layer_source,
j.room_rule, j.hall_rule, j.layer_rule, j.room_tier, j.hall_tier, j.language,
%(taxonomy_hash)s, j.text_hash, %(run_id)s::uuid, now(), %(is_held)s
;

-- name: ledger_changes
-- Fragment: what a planned label j changes in the ledger row l. How a label became explicit stays known.
bank_id = j.bank_id, room = j.room, hall = j.hall, layer = j.layer,
room_source = j.room_source, hall_source = j.hall_source, layer_source = j.layer_source,
room_rule = CASE WHEN j.room_source = 'explicit' AND l.room_source = 'explicit' THEN l.room_rule ELSE j.room_rule END,
hall_rule = CASE WHEN j.hall_source = 'explicit' AND l.hall_source = 'explicit' THEN l.hall_rule ELSE j.hall_rule END,
layer_rule = CASE WHEN j.layer_source = 'explicit' AND l.layer_source = 'explicit'
                  THEN l.layer_rule ELSE j.layer_rule END,
room_tier = j.room_tier, hall_tier = j.hall_tier, language = j.language,
taxonomy_hash = %(taxonomy_hash)s, text_hash = j.text_hash, run_id = %(run_id)s::uuid, labelled_at = now(),
is_held = %(is_held)s
;

-- name: apply_labels
-- One short transaction's worth of labels for locked units: write those that still read as planned, remember the
-- old values for undo (once a run: what the unit was before it), file them in the ledger, and say what became of
-- each. Rows are looked up one by one (LATERAL … LIMIT 1 keeps the planner from reading all that the run has logged),
-- and updated or inserted rather than upserted: ON CONFLICT writes twice to WAL. A unit that a trigger of the owner's
-- kept from being updated, or gave another label, is nowhere filed and not in the answer.
WITH judged AS MATERIALIZED (
    {judged_rows}
), written AS (
    UPDATE {units} u
       SET room = j.room, hall = j.hall, layer = j.stored_layer::{layer_type}
      FROM judged j
     WHERE u.id = j.unit_id AND j.outcome = 'written'
    RETURNING j.*, (u.room::text, u.hall::text, u.layer::text)
                   IS NOT DISTINCT FROM (j.room, j.hall, j.stored_layer) AS is_kept
), settled AS MATERIALIZED (
    SELECT * FROM written WHERE is_kept
    UNION ALL
    SELECT j.*, true FROM judged j WHERE j.outcome <> 'written'
), logged AS (
    INSERT INTO {changes} (run_id, unit_id, bank_id, old_room, old_hall, old_layer, room, hall, layer, old_ledger)
    SELECT %(run_id)s::uuid, j.unit_id, j.bank_id, j.old_room, j.old_hall, j.old_layer, j.room, j.hall,
           j.stored_layer, j.old_ledger
    FROM settled j
    LEFT JOIN LATERAL (SELECT true AS is_logged FROM {changes} c
                       WHERE c.run_id = %(run_id)s::uuid AND c.unit_id = j.unit_id LIMIT 1) c ON true
    WHERE j.outcome = 'written' AND c.is_logged IS NULL
), refiled AS (
    UPDATE {ledger} l SET {ledger_changes}
      FROM settled j
     WHERE l.unit_id = j.unit_id AND j.is_known AND j.outcome IN ('written', 'already')
), filed AS (
    INSERT INTO {ledger} ({ledger_columns})
    SELECT {ledger_values} FROM settled j WHERE NOT j.is_known AND j.outcome IN ('written', 'already')
)
SELECT unit_id::text, outcome FROM settled;

-- name: record_labels
-- Ledger rows for units whose stored label is already right, or is somebody's own and stays. The units are not
-- locked, so the ledger row is looked at once more where "rcll label" has just changed it.
WITH judged AS MATERIALIZED (
    {judged_rows}
), refiled AS (
    UPDATE {ledger} l SET {ledger_changes}
      FROM judged j
     WHERE l.unit_id = j.unit_id AND j.is_known AND j.outcome = 'already'
       AND (l.room_source IS DISTINCT FROM 'explicit' OR j.room_source = 'explicit')
       AND (l.hall_source IS DISTINCT FROM 'explicit' OR j.hall_source = 'explicit')
       AND (l.layer_source IS DISTINCT FROM 'explicit' OR j.layer_source = 'explicit')
), filed AS (
    INSERT INTO {ledger} ({ledger_columns})
    SELECT {ledger_values} FROM judged j WHERE NOT j.is_known AND j.outcome = 'already'
)
SELECT unit_id::text, CASE outcome WHEN 'already' THEN 'recorded' WHEN 'written' THEN 'relabelled' ELSE outcome END
FROM judged;

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
