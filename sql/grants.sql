-- name: grants
-- What a role needs that runs rcll beside a live server every night, once the owner of the units has migrated. It can
-- read units and write their three labels; text, tags, metadata, vectors and dates are out of its reach.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON {units}, {banks} TO {role};
GRANT UPDATE (room, hall, layer) ON {units} TO {role};
GRANT SELECT, INSERT, UPDATE ON {runs}, {leases} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {ledger}, {changes}, {explicit} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {closets}, {closet_sources}, {tunnels} TO {role};
GRANT SELECT ON {migrations} TO {role};

-- name: grants_archive
-- To tell units that were invalidated from units that are gone.
GRANT SELECT ON {archive} TO {role};

-- name: grants_vectors
-- The schema of the vector type.
GRANT USAGE ON SCHEMA {vector_schema} TO {role};

-- name: grants_more
-- Not needed, and useful. To name who keeps old rows from being cleared away:
--   GRANT pg_read_all_stats TO {role};
-- For vacuum = true (PostgreSQL 17 or newer; older servers let the owner alone):
--   GRANT MAINTAIN ON {units} TO {role};
-- For rcll serve and rcll keys:
--   GRANT INSERT ON {units}, {banks} TO {role};
--   GRANT SELECT, INSERT, UPDATE ON {keys} TO {role};
