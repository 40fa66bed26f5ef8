-- A fork that files units by itself: its own label columns, layers written 'L2', its own tunnels and closets.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE banks (
    bank_id text PRIMARY KEY,
    name    text
);
CREATE TABLE memory_units (
    id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    bank_id   text NOT NULL,
    text      text NOT NULL,
    embedding vector(384),
    room      text,
    hall      text,
    layer     text
);
CREATE TABLE invalidated_memory_units (LIKE memory_units);
ALTER TABLE invalidated_memory_units DROP COLUMN embedding, DROP COLUMN layer;
CREATE TABLE tunnels (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    source_memory uuid NOT NULL,
    target_memory uuid NOT NULL,
    relation      text
);
CREATE TABLE closets (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    bank_id    text,
    room       text,
    summary    text,
    source_ids jsonb
);
INSERT INTO banks VALUES ('orchard'), ('harbour');
INSERT INTO memory_units (id, bank_id, text, room, hall, layer) VALUES
    ('00000000-0000-4000-8000-000000000001', 'orchard', 'The press is cleaned on Mondays.', NULL, NULL, NULL),
    ('00000000-0000-4000-8000-000000000002', 'harbour', 'The crane was greased in May.', 'infrastructure', 'event', 'L2');
INSERT INTO tunnels (source_memory, target_memory, relation) VALUES
    ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002', 'upkeep');
INSERT INTO closets (bank_id, room, summary, source_ids) VALUES ('harbour', 'infrastructure', 'The crane is cared for.', '[]');
