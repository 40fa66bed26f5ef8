-- name: doctor_units
-- Units as a whole, in one pass; sizes are read from headers, only short texts are looked into.
SELECT count(*) AS n_units,
       count(*) FILTER (WHERE u.{text} IS NULL OR (octet_length(u.{text}) < 200 AND u.{text} !~ '\S')) AS n_empty,
       count(*) FILTER (WHERE octet_length(u.{text}) > %(huge_bytes)s) AS n_huge,
       coalesce(max(octet_length(u.{text})), 0)::bigint AS largest_bytes
FROM {units} u;

-- name: doctor_duplicates
-- Units beyond the first of each text in each bank.
SELECT count(*) - count(DISTINCT (u.bank_id, md5(u.{text}))) AS n_duplicates FROM {units} u;

-- name: doctor_embeddings
-- Units per length of their vector; no vector is NULL.
SELECT {vector_schema}.vector_dims(u.embedding) AS dims, count(*) AS n_units FROM {units} u GROUP BY 1 ORDER BY 1;

-- name: doctor_unindexed_banks
-- Banks of so many vectors that no vector index serves: neither one of all banks nor one whose condition names the bank.
WITH indexes AS (
    SELECT pg_get_expr(i.indpred, i.indrelid) AS condition
    FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    JOIN pg_catalog.pg_am a ON a.oid = c.relam
    WHERE i.indrelid = %(units)s::regclass AND a.amname IN ('hnsw', 'ivfflat') AND i.indisvalid
)
SELECT u.bank_id::text, count(*) AS n_units
FROM {units} u
WHERE u.embedding IS NOT NULL
GROUP BY u.bank_id
HAVING count(*) >= %(at_least)s
   AND NOT EXISTS (SELECT FROM indexes i
                   WHERE i.condition IS NULL OR position(quote_literal(u.bank_id::text) IN i.condition) > 0)
ORDER BY 2 DESC, 1;

-- name: doctor_orphans
-- What names units that are gone: ledger rows (not those of archived units), sources of closets.
SELECT (SELECT count(*) FROM {ledger} l
         WHERE NOT EXISTS (SELECT FROM {units} u WHERE u.id = l.unit_id) {not_archived}) AS n_ledger,
       (SELECT count(*) FROM {closet_sources} s
         WHERE NOT EXISTS (SELECT FROM {units} u WHERE u.id = s.unit_id)) AS n_sources,
       (SELECT count(*) FROM {tunnels} t
          JOIN {units} a ON a.id = t.source_unit_id JOIN {units} b ON b.id = t.target_unit_id
         WHERE t.source_bank_id IS DISTINCT FROM a.bank_id OR t.target_bank_id IS DISTINCT FROM b.bank_id) AS n_tunnels;

-- name: doctor_not_archived
AND NOT EXISTS (SELECT FROM {archive} a WHERE a.id = l.unit_id)

-- name: doctor_rooms
-- Units per room and hall, as they stand.
SELECT u.room::text, u.hall::text, count(*) AS n_units FROM {units} u GROUP BY 1, 2;

-- name: doctor_leases
-- Leases that have not expired.
SELECT bank, holder, acquired_at FROM {leases} WHERE expires_at > clock_timestamp() ORDER BY bank;

-- name: doctor_triggers
-- Triggers that fire when a unit's row is updated; pgvector and Hindsight bring none.
SELECT t.tgname
FROM pg_catalog.pg_trigger t
WHERE t.tgrelid = %(units)s::regclass AND NOT t.tgisinternal AND (t.tgtype & 16) <> 0 AND t.tgenabled <> 'D'
ORDER BY 1;
