-- Label columns that memory_units has and the archive lacks or has in another type: Hindsight moves units
-- between the two by column list, and answers 500.
SELECT u.attname AS column_name,
       pg_catalog.format_type(u.atttypid, u.atttypmod) AS units_type,
       pg_catalog.format_type(a.atttypid, a.atttypmod) AS archive_type
FROM pg_catalog.pg_namespace n
JOIN pg_catalog.pg_class units ON units.relnamespace = n.oid AND units.relname = 'memory_units'
JOIN pg_catalog.pg_class archive ON archive.relnamespace = n.oid AND archive.relname = 'invalidated_memory_units'
JOIN pg_catalog.pg_attribute u ON u.attrelid = units.oid AND u.attname IN ('room', 'hall', 'layer')
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = archive.oid AND a.attname = u.attname
WHERE n.nspname = %(schema)s
  AND (u.atttypid, u.atttypmod) IS DISTINCT FROM (a.atttypid, a.atttypmod);
