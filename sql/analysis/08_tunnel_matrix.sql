-- Which banks know of the same matters? Tunnels of each unordered pair of banks, by relationship.
-- example: FROM tunnel_matrix
CREATE VIEW tunnel_matrix AS
SELECT least(bank_id, target_bank_id) AS bank_a, greatest(bank_id, target_bank_id) AS bank_b,
       coalesce(relationship, 'unset') AS relationship, count(*) AS n_tunnels,
       count(*) FILTER (method = 'explicit') AS n_explicit,
       round(avg(score)::DOUBLE, 3) AS mean_score,
       mode(room) AS main_room
FROM tunnels
GROUP BY ALL
ORDER BY n_tunnels DESC, bank_a, bank_b, relationship;
