-- The specification read literally: banks in memory_banks, their ids uuid; vectors of its own width.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE memory_banks (
    id   uuid PRIMARY KEY,
    name text
);
CREATE TABLE memory_units (
    id         uuid PRIMARY KEY,
    bank_id    uuid REFERENCES memory_banks (id),
    content    text NOT NULL,
    embedding  vector(1536),
    created_at timestamp DEFAULT now()
);
INSERT INTO memory_banks VALUES
    ('00000000-0000-4000-9000-00000000000a', 'orchard'), ('00000000-0000-4000-9000-00000000000b', 'harbour');
INSERT INTO memory_units (id, bank_id, content) VALUES
    ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-9000-00000000000a', 'The press is cleaned on Mondays.'),
    ('00000000-0000-4000-8000-000000000002', '00000000-0000-4000-9000-00000000000b', 'The crane was greased in May.');
