-- name: vector_schema
-- Where pgvector's types live; no row where the extension is missing.
SELECT n.nspname
FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'vector';

-- name: catalog_columns
-- Columns of the tables that tell one kind of database from another, in every schema that holds something
-- called memory_units. is_key: a plain unique index on this column alone, as a foreign key needs it.
SELECT n.nspname AS schema,
       c.relname AS relation,
       c.relkind::text AS relkind,
       pg_catalog.has_schema_privilege(n.oid, 'USAGE')
           AND pg_catalog.has_table_privilege(c.oid, 'SELECT') AS is_readable,
       a.attname AS name,
       t.typname AS type,
       a.atttypmod AS typmod,
       pg_catalog.format_type(a.atttypid, a.atttypmod) AS definition,
       pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS default_value,
       EXISTS (SELECT FROM pg_catalog.pg_index i
               WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
                 AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum AND i.indpred IS NULL) AS is_key,
       a.attgenerated <> '' AS is_generated
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND c.relname = ANY(%(tables)s)
  AND n.nspname !~ '^(pg_|information_schema$)'
  AND EXISTS (SELECT FROM pg_catalog.pg_class u
              WHERE u.relnamespace = n.oid AND u.relname = 'memory_units' AND u.relkind IN ('r', 'p', 'v', 'm', 'f'))
ORDER BY n.nspname, c.relname, a.attnum;

-- name: user_tables
-- What the database holds instead, for the message that refuses it.
SELECT n.nspname || '.' || c.relname
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^(pg_|information_schema$)'
ORDER BY 1
LIMIT %(limit)s;
