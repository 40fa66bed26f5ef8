-- Something else that happens to hold vectors.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE recipes (
    id        bigserial PRIMARY KEY,
    title     text,
    embedding vector(3)
);
CREATE TABLE shopping_lists (id bigserial PRIMARY KEY);
