-- name: expire_changes
-- Forget what runs replaced that ended long ago, a batch at a time; whole runs, as half an undo is none. Their time
-- says on which pages to look.
DELETE FROM {changes}
WHERE ctid = ANY(ARRAY(
    SELECT c.ctid FROM {changes} c JOIN {runs} r ON r.run_id = c.run_id
    WHERE c.changed_at < now() - make_interval(days => %(days)s)
      AND r.finished_at < now() - make_interval(days => %(days)s)
    LIMIT %(limit)s FOR UPDATE OF c SKIP LOCKED))
RETURNING 1;

-- name: expire_labels
-- One keyset page of labels: those whose unit is missing are noted with the time, and go when it has been missing for
-- long; a unit that came back, by a restore of a backup for example, is missing no more. The last unit of the page,
-- null at the end, and how many labels went.
WITH page AS MATERIALIZED (
    SELECT l.unit_id, l.gone_at, EXISTS (SELECT FROM {units} u WHERE u.id = l.unit_id) OR {is_archived} AS is_there
    FROM {ledger} l
    WHERE l.unit_id > %(after)s::uuid AND l.unit_id <= %(last)s::uuid
    ORDER BY l.unit_id
    LIMIT %(limit)s
), noted AS (
    UPDATE {ledger} l SET gone_at = CASE WHEN NOT p.is_there THEN now() END
      FROM page p
     WHERE l.unit_id = p.unit_id AND p.is_there = (p.gone_at IS NOT NULL)
), expired AS (
    DELETE FROM {ledger} l
     USING page p
     WHERE l.unit_id = p.unit_id AND NOT p.is_there AND p.gone_at < now() - make_interval(days => %(days)s)
    RETURNING 1
)
SELECT (SELECT p.unit_id::text FROM page p ORDER BY p.unit_id DESC LIMIT 1), (SELECT count(*) FROM expired);

-- name: is_archived
-- Fragment: the unit of label l was invalidated, and may come back.
EXISTS (SELECT FROM {archive} a WHERE a.id = l.unit_id)
;
