-- Links between units of two banks. Both ends cascade and are indexed: without that Hindsight can delete neither
-- a unit nor a document. As part of CREATE TABLE they lock memory_units against writers for a few milliseconds
-- and scan nothing. No foreign key from the bank columns: it would make Hindsight's rename-bank fail, and
-- the truth about a unit's bank is the unit. A row that somebody inserts by hand counts as explicit.
CREATE TABLE {tunnels} (
    id             uuid PRIMARY KEY,
    source_unit_id uuid NOT NULL REFERENCES {units} (id) ON DELETE CASCADE,
    target_unit_id uuid NOT NULL REFERENCES {units} (id) ON DELETE CASCADE,
    source_bank_id {bank_type},
    target_bank_id {bank_type},
    relationship   varchar(256),
    created_at     timestamp DEFAULT (now() AT TIME ZONE 'UTC'),
    score          real,
    method         text NOT NULL DEFAULT 'explicit' CHECK (method IN ('auto', 'explicit')),
    run_id         uuid,
    evidence       jsonb,
    CHECK (source_unit_id <> target_unit_id)
);
CREATE INDEX ON {tunnels} (source_unit_id);
CREATE INDEX ON {tunnels} (target_unit_id);
CREATE UNIQUE INDEX ON {tunnels} (
    least(source_unit_id, target_unit_id), greatest(source_unit_id, target_unit_id), relationship
) NULLS NOT DISTINCT;
