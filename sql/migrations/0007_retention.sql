-- The undo log is asked by unit and, for an undo, by run. A run's rows lie together, in the order of time: two words
-- a range of pages find them. One B-tree with random keys less is what every written label costs less.
ALTER TABLE {changes} DROP CONSTRAINT rcll_changes_pkey, ADD PRIMARY KEY (unit_id, run_id);
DROP INDEX {schema}.rcll_changes_unit_id_idx;
CREATE INDEX ON {changes} USING brin (changed_at) WITH (autosummarize = on);

-- Since when a label's unit has been missing; after the time that an undo reaches back the label goes too.
ALTER TABLE {ledger} ADD COLUMN gone_at timestamptz;
