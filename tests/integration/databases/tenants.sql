-- Two tenants with names that need quoting and pgvector out of everybody's search_path: half-precision vectors in
-- one, none in the other. A third schema holds something else.
DROP EXTENSION IF EXISTS vector;
CREATE SCHEMA "types of pgvector";
CREATE EXTENSION vector SCHEMA "types of pgvector";

CREATE SCHEMA "north-wing";
CREATE TABLE "north-wing".banks (bank_id text PRIMARY KEY);
CREATE TABLE "north-wing".memory_units (
    id        uuid PRIMARY KEY,
    bank_id   text NOT NULL,
    text      text NOT NULL,
    embedding "types of pgvector".halfvec(512)
);

CREATE SCHEMA "South ""Wing""";
CREATE TABLE "South ""Wing""".banks (bank_id text PRIMARY KEY);
CREATE TABLE "South ""Wing""".memory_units (
    id      uuid PRIMARY KEY,
    bank_id text NOT NULL,
    text    text NOT NULL
);

CREATE TABLE public.banks (iban text PRIMARY KEY);
INSERT INTO "north-wing".banks VALUES ('orchard');
INSERT INTO "South ""Wing""".banks VALUES ('orchard');
