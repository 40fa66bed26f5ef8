-- name: record_explicit
-- Remember what somebody asked for; asked for again, the newest payload stands.
INSERT INTO {explicit} AS e (id, kind, payload) VALUES (%(id)s, %(kind)s, %(payload)s)
ON CONFLICT (id) DO UPDATE SET payload = excluded.payload
 WHERE e.kind = excluded.kind AND e.payload <> excluded.payload;

-- name: forget_explicit
DELETE FROM {explicit} WHERE id = ANY(%(ids)s::uuid[]) RETURNING id::text;

-- name: list_explicit
-- What was asked for, whether it stands, in which banks its ends stand now, and which ends are missing or, for a
-- closet, read differently.
SELECT e.id::text AS id, e.kind, e.payload, e.created_at,
       CASE e.kind
           WHEN 'closet' THEN EXISTS (SELECT FROM {closets} c WHERE c.id = e.id)
           ELSE EXISTS (SELECT FROM {tunnels} t
                        WHERE t.source_unit_id IN (ends.first, ends.last) AND t.target_unit_id IN (ends.first, ends.last)
                          AND t.relationship IS NOT DISTINCT FROM e.payload->>'relationship' AND t.method = 'explicit')
       END AS is_present,
       ends.banks, ends.missing, ends.changed
FROM {explicit} e
CROSS JOIN LATERAL (
    SELECT (array_agg(x.unit_id ORDER BY x.n))[1] AS first, (array_agg(x.unit_id ORDER BY x.n DESC))[1] AS last,
           coalesce(array_agg(DISTINCT u.bank_id::text) FILTER (WHERE u.id IS NOT NULL), '{{}}') AS banks,
           coalesce(array_agg(x.unit_id::text ORDER BY x.n) FILTER (WHERE u.id IS NULL), '{{}}') AS missing,
           coalesce(array_agg(x.unit_id::text ORDER BY x.n) FILTER (
               WHERE e.payload->'text_hashes'->>(x.n - 1)::int
                     <> left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32)), '{{}}') AS changed
    FROM (SELECT value::uuid AS unit_id, n
          FROM jsonb_array_elements_text(e.payload->'unit_ids') WITH ORDINALITY AS each(value, n)) x
    LEFT JOIN {units} u ON u.id = x.unit_id
) ends
WHERE (%(kind)s::text IS NULL OR e.kind = %(kind)s) AND NOT e.payload ? 'is_dismissed'
ORDER BY e.created_at, e.id;

-- name: dig_explicit
-- Tunnels as recorded, where both ends exist; one that rcll had found by itself becomes somebody's own.
INSERT INTO {tunnels} AS t (id, source_unit_id, target_unit_id, source_bank_id, target_bank_id, relationship, method)
SELECT e.id, a.id, b.id, a.bank_id, b.bank_id, e.payload->>'relationship', 'explicit'
FROM {explicit} e
JOIN {units} a ON a.id = (e.payload->'unit_ids'->>0)::uuid
JOIN {units} b ON b.id = (e.payload->'unit_ids'->>1)::uuid AND b.bank_id <> a.bank_id
WHERE e.kind = 'tunnel' AND e.id = ANY(%(ids)s::uuid[])
ORDER BY e.id
ON CONFLICT (least(source_unit_id, target_unit_id), greatest(source_unit_id, target_unit_id), relationship)
DO UPDATE SET method = 'explicit', run_id = NULL WHERE t.method <> 'explicit'
RETURNING id::text;

-- name: spoken_for
-- Units of closets that somebody asked for, and of those that somebody did not want, while they still read the same.
SELECT DISTINCT x.unit_id
FROM {explicit} e
CROSS JOIN LATERAL (
    SELECT value AS unit_id, e.payload->'text_hashes'->>(n - 1)::int AS text_hash
    FROM jsonb_array_elements_text(e.payload->'unit_ids') WITH ORDINALITY AS each(value, n)) x
WHERE e.kind = 'closet'
  AND (NOT e.payload ? 'is_dismissed' OR x.text_hash = (
       SELECT left(encode(sha256(convert_to(u.{text}, 'UTF8')), 'hex'), 32) FROM {units} u WHERE u.id = x.unit_id::uuid));

-- name: dismiss_closet
-- In place of a wish for the closet, the wish that there be none of its sources as they read.
INSERT INTO {explicit} (id, kind, payload)
SELECT s.closet_id, 'closet', jsonb_build_object('is_dismissed', true, 'unit_ids', jsonb_agg(s.unit_id ORDER BY s.rank),
                                                 'text_hashes', jsonb_agg(s.text_hash ORDER BY s.rank))
FROM {closet_sources} s WHERE s.closet_id = %(closet_id)s GROUP BY s.closet_id
ON CONFLICT (id) DO UPDATE SET payload = excluded.payload;
