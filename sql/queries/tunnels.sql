-- name: select_tunnel_states
-- Tunnels that touch one of these banks (null: all), and what a run may change about those that rcll found by itself.
-- The truth about a unit's bank is the unit: a bank may have been renamed since.
SELECT t.id::text AS tunnel_id, t.method, t.score, t.evidence, t.source_bank_id::text, t.target_bank_id::text
FROM {tunnels} t
WHERE (%(banks)s::text[] IS NULL
       OR EXISTS (SELECT FROM {units} u WHERE u.id IN (t.source_unit_id, t.target_unit_id)
                  AND u.bank_id = ANY(%(banks)s::{bank_type}[])));

-- name: update_tunnels
-- Found tunnels that were there, as they are found now.
UPDATE {tunnels} t
   SET score = i.score, evidence = i.evidence::jsonb,
       source_bank_id = i.source_bank_id::{bank_type}, target_bank_id = i.target_bank_id::{bank_type}
FROM unnest(%(tunnel_id)s::uuid[], %(source_bank_id)s::text[], %(target_bank_id)s::text[],
            %(score)s::real[], %(evidence)s::text[])
  AS i(tunnel_id, source_bank_id, target_bank_id, score, evidence)
WHERE t.id = i.tunnel_id AND t.method = 'auto'
RETURNING t.id::text;

-- name: insert_tunnels
-- Found tunnels whose ends still stand in their banks; one that exists already, by whoever, is left alone.
INSERT INTO {tunnels} (id, source_unit_id, target_unit_id, source_bank_id, target_bank_id,
                       relationship, score, method, run_id, evidence)
SELECT i.tunnel_id, i.source_unit_id, i.target_unit_id, a.bank_id, b.bank_id,
       i.relationship, i.score, 'auto', %(run_id)s, i.evidence::jsonb
FROM unnest(%(tunnel_id)s::uuid[], %(source_unit_id)s::uuid[], %(target_unit_id)s::uuid[],
            %(source_bank_id)s::text[], %(target_bank_id)s::text[],
            %(relationship)s::text[], %(score)s::real[], %(evidence)s::text[])
  AS i(tunnel_id, source_unit_id, target_unit_id, source_bank_id, target_bank_id, relationship, score, evidence)
JOIN {units} a ON a.id = i.source_unit_id AND a.bank_id::text = i.source_bank_id
JOIN {units} b ON b.id = i.target_unit_id AND b.bank_id::text = i.target_bank_id
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: delete_tunnels
-- Only what rcll found by itself; a tunnel that somebody made is never removed by a run.
DELETE FROM {tunnels} WHERE id = ANY(%(tunnel_ids)s::uuid[]) AND method = 'auto' RETURNING id::text;

-- name: list_tunnels
-- Tunnels with both ends, those that somebody asked for first, then the strongest; the bank and the room of an end are
-- those in which its unit stands now.
SELECT t.id::text AS tunnel_id, t.relationship, t.score, t.method, t.evidence,
       a.bank_id::text AS source_bank_id, t.source_unit_id::text AS source_unit_id, a.{text} AS source_text,
       b.bank_id::text AS target_bank_id, t.target_unit_id::text AS target_unit_id, b.{text} AS target_text,
       a.room::text AS room
FROM {tunnels} t
JOIN {units} a ON a.id = t.source_unit_id
JOIN {units} b ON b.id = t.target_unit_id
WHERE (%(banks)s::text[] IS NULL
       OR a.bank_id::text = ANY(%(banks)s::text[]) OR b.bank_id::text = ANY(%(banks)s::text[]))
  AND (%(room)s::text IS NULL OR a.room = %(room)s OR b.room = %(room)s)
  AND (%(relationship)s::text IS NULL OR t.relationship = %(relationship)s)
  AND (%(tunnel_ids)s::uuid[] IS NULL OR t.id = ANY(%(tunnel_ids)s::uuid[]))
ORDER BY t.method = 'explicit' DESC, t.score DESC NULLS LAST, t.id
LIMIT %(limit)s;

-- name: select_neighbours
-- One hop through tunnels from some units, whichever end they are: the near unit, the tunnel, and the far unit as it
-- reads now, in the order of the list, then as tunnels are listed. Only far units of the named banks, those that the
-- caller may read (null: any); at most so many for each near unit.
WITH ends AS (
    SELECT id, source_unit_id AS near_id, target_unit_id AS far_id, 'out' AS direction FROM {tunnels}
    WHERE source_unit_id = ANY(%(unit_ids)s::uuid[])
    UNION ALL
    SELECT id, target_unit_id, source_unit_id, 'in' FROM {tunnels}
    WHERE target_unit_id = ANY(%(unit_ids)s::uuid[])
), hops AS (
    SELECT e.near_id::text AS near_unit_id, near.bank_id::text AS near_bank_id, t.id::text AS tunnel_id, e.direction,
           t.relationship, t.score, t.method, t.evidence,
           far.id::text AS unit_id, far.bank_id::text AS bank_id, far.{text} AS text,
           far.room::text AS room, far.hall::text AS hall, far.layer::text AS layer,
           row_number() OVER (PARTITION BY e.near_id
                              ORDER BY t.method = 'explicit' DESC, t.score DESC NULLS LAST, t.id) AS nth
    FROM ends e
    JOIN {tunnels} t ON t.id = e.id
    JOIN {units} near ON near.id = e.near_id
    JOIN {units} far ON far.id = e.far_id
    WHERE near.bank_id <> far.bank_id
      AND (%(banks)s::text[] IS NULL OR far.bank_id::text = ANY(%(banks)s::text[]))
)
SELECT near_unit_id, near_bank_id, tunnel_id, direction, relationship, score, method, evidence,
       unit_id, bank_id, text, room, hall, layer
FROM hops
WHERE nth <= %(per_unit)s
ORDER BY array_position(%(unit_ids)s::uuid[], near_unit_id::uuid), nth;

-- name: select_ends
-- Which of some units exist, and their banks.
SELECT u.id::text AS unit_id, u.bank_id::text AS bank_id FROM {units} u WHERE u.id = ANY(%(unit_ids)s::uuid[]);

-- name: select_room_units
-- Units of two banks that stand in a room.
SELECT u.id::text AS unit_id FROM {units} u
WHERE u.bank_id = ANY(%(banks)s::{bank_type}[]) AND u.room = %(room)s
ORDER BY u.id;

-- name: match_tunnels
-- Ids of the first few tunnels, there or asked for, between two ids.
SELECT id::text FROM {tunnels} WHERE id BETWEEN %(low)s::uuid AND %(high)s::uuid
UNION
SELECT id::text FROM {explicit} WHERE kind = 'tunnel' AND id BETWEEN %(low)s::uuid AND %(high)s::uuid
ORDER BY 1
LIMIT 3;

-- name: remove_tunnels
-- Tunnels that somebody wants gone, however they came.
DELETE FROM {tunnels} WHERE id = ANY(%(tunnel_ids)s::uuid[]) RETURNING id::text;

-- name: count_tunnels
-- Tunnels per unordered pair of banks.
SELECT least(a.bank_id::text, b.bank_id::text) AS bank_a, greatest(a.bank_id::text, b.bank_id::text) AS bank_b,
       count(*) AS n_tunnels
FROM {tunnels} t
JOIN {units} a ON a.id = t.source_unit_id
JOIN {units} b ON b.id = t.target_unit_id
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: select_filed_units
-- Units of some banks with the room in which they are filed and stand, less the fallback room.
SELECT u.id::text AS unit_id, u.bank_id::text AS bank_id, u.room::text AS room
FROM {ledger} l
JOIN {units} u ON u.id = l.unit_id AND u.room = l.room
WHERE l.bank_id = ANY(%(banks)s::text[]) AND l.room <> %(fallback)s
ORDER BY u.id;
