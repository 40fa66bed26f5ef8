-- What the HTTP service needs. The units of layer 0 come with every recall and are few: found by an index on the
-- ledger, so that memory_units needs none.
CREATE INDEX ON {ledger} (bank_id) WHERE layer = 0;

-- Who may call the service. Of a key only its number and a hash of its secret are kept; the two lists hold patterns
-- of bank names, such as team-*.
CREATE TABLE {keys} (
    key_id     text PRIMARY KEY,
    name       text NOT NULL,
    hash       text NOT NULL,
    may_read   text[] NOT NULL,
    may_write  text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);
