-- name: seed_taken
-- Tables of a bank set that a schema holds already.
SELECT tablename FROM pg_catalog.pg_tables
WHERE schemaname = %(schema)s AND tablename IN ('banks', 'memory_units', 'invalidated_memory_units')
ORDER BY tablename;

-- name: seed_bank
INSERT INTO {banks} (bank_id, name) VALUES (%(bank_id)s, %(name)s);

-- name: seed_unit
-- A unit as Hindsight's retain leaves it.
INSERT INTO {units} (id, bank_id, text, embedding, context, event_date, occurred_start, mentioned_at, fact_type,
                     tags, search_vector, created_at, updated_at)
VALUES (%(unit_id)s::uuid, %(bank_id)s, %(text)s, %(embedding)s::{vector_type}, %(context)s, %(occurred_at)s,
        %(occurred_at)s, %(created_at)s, %(fact_type)s, %(tags)s,
        to_tsvector('pg_catalog.english', %(text)s::text || ' ' || %(context)s::text), %(created_at)s, %(created_at)s);

-- name: seed_indexes
-- Hindsight's indexes that an update of a unit has to pay for.
CREATE INDEX ON {units} (bank_id);
CREATE INDEX ON {units} (bank_id, event_date DESC);
CREATE INDEX ON {units} (bank_id, fact_type);
CREATE INDEX ON {units} (document_id);
CREATE INDEX ON {units} USING gin (tags);
CREATE INDEX ON {units} USING gin (search_vector);

-- name: seed_vector_index
-- Hindsight has no global vector index, but partial ones for each bank.
CREATE INDEX ON {units} USING hnsw (embedding {vector_schema}.vector_cosine_ops)
WHERE fact_type = {fact_type} AND bank_id = {bank_id};

-- name: seed_analyze
ANALYZE {units};
