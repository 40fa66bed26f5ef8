-- Who decided: how many labels of each room, hall and layer come from a rule, from a person or client (explicit),
-- from a closet (archived), from before rcll (adopted), and from nobody yet?
-- example: FROM explicit_against_rule WHERE field = 'room'
CREATE VIEW explicit_against_rule AS
WITH labels AS (
    SELECT 'room' AS field, room AS label, room_source AS source, count(*) AS n FROM units GROUP BY ALL
    UNION ALL
    SELECT 'hall', hall, hall_source, count(*) FROM units GROUP BY ALL
    UNION ALL
    SELECT 'layer', layer::VARCHAR, layer_source, count(*) FROM units GROUP BY ALL
)
SELECT field, coalesce(label, 'unset') AS label, sum(n)::BIGINT AS n_units,
       coalesce(sum(n) FILTER (source = 'rule'), 0)::BIGINT AS by_rule,
       coalesce(sum(n) FILTER (source = 'explicit'), 0)::BIGINT AS explicit,
       coalesce(sum(n) FILTER (source = 'archived'), 0)::BIGINT AS archived,
       coalesce(sum(n) FILTER (source = 'adopted'), 0)::BIGINT AS adopted,
       coalesce(sum(n) FILTER (source IS NULL), 0)::BIGINT AS unfiled
FROM labels
GROUP BY ALL
ORDER BY field DESC, n_units DESC, label;
