-- Summaries of groups of units. bank_id is the one hard reference besides the tunnels' ends: a deleted bank takes
-- its closets along. created_at has the specification's type; it holds UTC whatever the session's zone.
-- closet_sources names units softly, so that a reader sees that a source is gone.
CREATE TABLE {closets} (
    id              uuid PRIMARY KEY,
    bank_id         {bank_type} NOT NULL REFERENCES {banks} ({bank_key}) ON DELETE CASCADE,
    room            varchar(64),
    hall            varchar(64),
    summary         text NOT NULL,
    embedding       {vector_type},
    source_unit_ids uuid[],
    created_at      timestamp DEFAULT (now() AT TIME ZONE 'UTC'),
    title           text,
    model           text,
    source_hash     text,
    status          text NOT NULL DEFAULT 'fresh' CHECK (status IN ('fresh', 'stale', 'failed')),
    run_id          uuid,
    updated_at      timestamptz NOT NULL DEFAULT now(),
    n_read          integer,
    n_sources       integer,
    embedding_model text,
    is_extractive   boolean,
    UNIQUE (bank_id, source_hash)
);

CREATE TABLE {closet_sources} (
    closet_id uuid REFERENCES {closets} (id) ON DELETE CASCADE,
    unit_id   uuid,
    text_hash text NOT NULL,
    rank      integer NOT NULL,
    PRIMARY KEY (closet_id, unit_id)
);
CREATE INDEX ON {closet_sources} (unit_id);
