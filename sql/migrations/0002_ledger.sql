-- What rcll itself knows. Soft references only: a restore of Hindsight truncates its tables with CASCADE, and
-- these shall survive it. Columns that name a bank are called bank_id, so that Hindsight's rename-bank follows;
-- not so in the leases, whose rows stay for their fencing tokens and would stand in the way of the new name.
CREATE TABLE {runs} (
    run_id        uuid PRIMARY KEY,
    kind          text NOT NULL,
    status        text NOT NULL CHECK (status IN ('running', 'done', 'partial', 'failed', 'undone')),
    started_at    timestamptz NOT NULL DEFAULT now(),
    finished_at   timestamptz,
    taxonomy_hash text,
    rcll_version  text,
    parameters    jsonb,
    summary       jsonb
);

-- The label that rcll wrote or found on a unit, and who decided each of its three fields.
CREATE TABLE {ledger} (
    unit_id       uuid PRIMARY KEY,
    bank_id       text NOT NULL,
    room          varchar(64),
    hall          varchar(64),
    layer         smallint,
    room_source   text CHECK (room_source IN ('rule', 'explicit', 'archived', 'adopted')),
    hall_source   text CHECK (hall_source IN ('rule', 'explicit', 'archived', 'adopted')),
    layer_source  text CHECK (layer_source IN ('rule', 'explicit', 'archived', 'adopted')),
    room_rule     text,
    hall_rule     text,
    layer_rule    text,
    room_tier     text,
    hall_tier     text,
    language      text,
    taxonomy_hash text,
    text_hash     text,
    run_id        uuid,
    labelled_at   timestamptz NOT NULL DEFAULT now(),
    is_held       boolean NOT NULL DEFAULT false
);
-- Filtered recall finds a room's units here, so that memory_units needs no index that would spoil HOT updates.
CREATE INDEX ON {ledger} (bank_id, room, hall);

-- What each run replaced, for undo, and for knowing an old value of ours when it comes back. Stored as text:
-- a fork writes layers as 'L2'.
CREATE TABLE {changes} (
    run_id     uuid,
    unit_id    uuid,
    bank_id    text NOT NULL,
    old_room   text,
    old_hall   text,
    old_layer  text,
    room       text,
    hall       text,
    layer      text,
    old_ledger jsonb,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, unit_id)
);
CREATE INDEX ON {changes} (unit_id);

-- One writer per bank; '*' stands for the whole tenant.
CREATE TABLE {leases} (
    bank         text PRIMARY KEY,
    holder       text NOT NULL,
    run_id       uuid,
    fencing      bigint NOT NULL,
    acquired_at  timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL
);

-- Tunnels and closets that somebody asked for; they come back after a restore.
CREATE TABLE {explicit} (
    id         uuid PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('tunnel', 'closet')),
    payload    jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
