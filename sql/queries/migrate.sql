-- name: create_base
-- Base tables of the embedded default: Hindsight's layout, less what only its server uses.
-- EXTERNAL: vectors do not compress, and unpacked ones are read faster.
CREATE TABLE public.banks (
    bank_id    text PRIMARY KEY,
    name       text,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE public.memory_units (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    bank_id        text NOT NULL,
    document_id    text,
    text           text NOT NULL,
    embedding      public.vector(256) STORAGE EXTERNAL,
    context        text,
    event_date     timestamptz,
    occurred_start timestamptz,
    occurred_end   timestamptz,
    mentioned_at   timestamptz,
    fact_type      text NOT NULL DEFAULT 'world',
    metadata       jsonb NOT NULL DEFAULT '{{}}',
    tags           varchar[] NOT NULL DEFAULT '{{}}',
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON public.memory_units (bank_id, id);

-- name: lock_schema
-- One migrator per schema until the transaction ends, and no wait that others would have to queue behind.
-- A deadlock check that comes before the lock timeout is what makes PostgreSQL call off an autovacuum that is
-- in the way; only a superuser may ask for it.
SELECT pg_catalog.set_config('search_path', 'pg_catalog', true),
       pg_catalog.set_config('lock_timeout', %(milliseconds)s || 'ms', true),
       CASE WHEN pg_catalog.has_parameter_privilege('deadlock_timeout', 'SET')
            THEN pg_catalog.set_config('deadlock_timeout', '20ms', true) END,
       pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('rcll migrate ' || %(schema)s, 0));

-- name: become_owner
-- New tables get the owner that memory_units has, so that Hindsight's own role can rename a bank or restore a
-- backup over them when a superuser, or a mere member of that role, has migrated.
SELECT pg_catalog.set_config('role', r.rolname, true)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
WHERE n.nspname = %(schema)s AND c.relname = 'memory_units' AND r.rolname <> current_user
  AND pg_catalog.pg_has_role(r.oid, 'MEMBER');

-- name: blockers
-- Who the migrator of a schema waits for. It is found by its advisory lock, as behind PgBouncer a client does
-- not know the pid of its backend. A prepared transaction has pid 0 and no session.
SELECT DISTINCT b.pid, coalesce(nullif(a.application_name, ''), a.backend_type, 'prepared transaction'), a.xact_start
FROM pg_catalog.pg_locks l
CROSS JOIN LATERAL unnest(pg_catalog.pg_blocking_pids(l.pid)) AS b(pid)
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 1
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
  AND (l.classid::bigint << 32 | l.objid::bigint) = pg_catalog.hashtextextended('rcll migrate ' || %(schema)s, 0)
ORDER BY a.xact_start NULLS LAST, b.pid;

-- name: has_table
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND c.relkind IN ('r', 'p'));

-- name: create_migrations
CREATE TABLE IF NOT EXISTS {migrations} (
    name         text PRIMARY KEY,
    checksum     text NOT NULL,
    applied_at   timestamptz NOT NULL DEFAULT now(),
    rcll_version text NOT NULL,
    added        jsonb NOT NULL
);

-- name: select_migrations
SELECT name, checksum, rcll_version, added FROM {migrations} ORDER BY name;

-- name: record_migration
INSERT INTO {migrations} (name, checksum, rcll_version, added)
VALUES (%(name)s, %(checksum)s, %(version)s, %(added)s);

-- name: schema_objects
-- Tables and their columns, to see by difference what a migration really added; only_ours leaves out what
-- another session adds meanwhile.
SELECT c.relname, a.attname
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p')
  AND (NOT %(only_ours)s OR a.xmin = pg_catalog.pg_current_xact_id_if_assigned()::xid);

-- name: live_leases
SELECT bank, holder, acquired_at FROM {leases} WHERE expires_at > clock_timestamp() ORDER BY acquired_at;

-- name: count_rows
SELECT count(*) FROM {table};

-- name: count_set
-- Rows that hold a value other than the default.
SELECT count(*) FROM {table} WHERE {column} IS NOT NULL AND {column}::text IS DISTINCT FROM %(default)s::text;

-- name: count_explicit
-- Units of which somebody set a field on purpose.
SELECT count(*) FROM {ledger} WHERE 'explicit' IN (room_source, hall_source, layer_source);

-- name: drop_tables
-- Never CASCADE: what others have built on top is not ours to remove.
DROP TABLE IF EXISTS {tables};

-- name: drop_column
ALTER TABLE IF EXISTS {table} DROP COLUMN IF EXISTS {column};
