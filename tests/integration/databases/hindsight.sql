-- A Hindsight database before rcll, less the tables that rcll does not look at.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE banks (
    bank_id     text PRIMARY KEY,
    name        text,
    internal_id uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE,
    config      jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE documents (
    id      text,
    bank_id text,
    PRIMARY KEY (id, bank_id)
);
CREATE TABLE memory_units (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    bank_id     text NOT NULL,
    document_id text,
    text        text NOT NULL,
    embedding   vector(384),
    event_date  timestamptz,
    mentioned_at timestamptz,
    fact_type   text NOT NULL DEFAULT 'world',
    tags        varchar[] NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (document_id, bank_id) REFERENCES documents (id, bank_id) ON DELETE CASCADE
);
CREATE INDEX ON memory_units (bank_id);
CREATE TABLE invalidated_memory_units (LIKE memory_units INCLUDING DEFAULTS);
ALTER TABLE invalidated_memory_units DROP COLUMN embedding, ADD COLUMN invalidation_reason text;
CREATE TABLE memory_links (
    from_unit_id uuid REFERENCES memory_units (id) ON DELETE CASCADE,
    to_unit_id   uuid REFERENCES memory_units (id) ON DELETE CASCADE,
    bank_id      text NOT NULL
);
INSERT INTO banks (bank_id) VALUES ('orchard'), ('harbour');
INSERT INTO documents VALUES ('minutes', 'orchard');
INSERT INTO memory_units (id, bank_id, document_id, text) VALUES
    ('00000000-0000-4000-8000-000000000001', 'orchard', 'minutes', 'The press is cleaned on Mondays.'),
    ('00000000-0000-4000-8000-000000000002', 'orchard', NULL, 'Never store cider next to the boiler.'),
    ('00000000-0000-4000-8000-000000000003', 'harbour', NULL, 'The crane was greased in May.');
INSERT INTO invalidated_memory_units (bank_id, text) VALUES ('orchard', 'The press is cleaned on Fridays.');
