-- What a bank set looked like before rooms: Hindsight's tables that rcll reads, less those that it leaves alone.
-- The server of that time wrote search_vector itself; there are no triggers.
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE {banks} (
    bank_id     text PRIMARY KEY,
    name        text,
    internal_id uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE,
    config      jsonb NOT NULL DEFAULT '{{}}',
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE {units} (
    id              uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    bank_id         text NOT NULL,
    document_id     text,
    chunk_id        text,
    text            text NOT NULL,
    embedding       {vector_type},
    context         text,
    event_date      timestamptz NOT NULL,
    occurred_start  timestamptz,
    occurred_end    timestamptz,
    mentioned_at    timestamptz,
    fact_type       text NOT NULL DEFAULT 'world' CHECK (fact_type IN ('world', 'experience', 'observation')),
    metadata        jsonb NOT NULL DEFAULT '{{}}',
    tags            varchar[] NOT NULL DEFAULT '{{}}',
    proof_count     integer NOT NULL DEFAULT 1,
    source_memory_ids uuid[],
    consolidated_at timestamptz,
    search_vector   tsvector,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE {units} ALTER COLUMN embedding SET STORAGE EXTERNAL;

-- The archive keeps the columns of a unit, less embedding and search_vector, and says why it was invalidated.
CREATE TABLE {archive} (LIKE {units} INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
ALTER TABLE {archive}
    DROP COLUMN embedding,
    DROP COLUMN search_vector,
    ADD PRIMARY KEY (id),
    ADD COLUMN invalidated_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN invalidation_reason text;
