-- name: server_facts
-- Database, server as a number (150004), pgvector installed in this database, and pgvector on offer.
SELECT current_database() AS database,
       current_setting('server_version_num')::integer AS postgresql,
       (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector') AS vector_installed,
       (SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name = 'vector') AS vector_offered;

-- name: has_database
-- One row if the database exists.
SELECT 1 FROM pg_catalog.pg_database WHERE datname = %(name)s;

-- name: create_database
CREATE DATABASE {name};

-- name: drop_database
DROP DATABASE IF EXISTS {name} WITH (FORCE);

-- name: rename_database
-- Atomic: who sees the new name sees a database with its extensions.
ALTER DATABASE {old} RENAME TO {new};

-- name: create_extension
CREATE EXTENSION IF NOT EXISTS {extension};
