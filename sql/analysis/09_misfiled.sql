-- Which units of a bank sit elsewhere than their neighbours? Of the ten nearest by embedding, among 2,000 units of
-- the bank at most, seven or more stand in one other room.
-- example: FROM misfiled((SELECT max(bank_id) FROM banks)) LIMIT 20
-- needs: embeddings
CREATE MACRO misfiled(bank) AS TABLE
WITH members AS (
    SELECT u.unit_id, u.room, u.text, e.embedding
    FROM units u JOIN embeddings e USING (unit_id)
    WHERE u.bank_id = bank
), others AS (
    SELECT unit_id, room, embedding FROM members ORDER BY unit_id LIMIT 2000
), near AS (
    SELECT m.unit_id, any_value(m.room) AS room, any_value(m.text) AS text,
           max_by(o.room, list_cosine_similarity(m.embedding, o.embedding), 10) AS rooms
    FROM members m JOIN others o ON o.unit_id <> m.unit_id
    GROUP BY m.unit_id
), votes AS (
    SELECT unit_id, room, text, list_aggregate(rooms, 'mode') AS proposed_room, rooms FROM near
)
SELECT unit_id, room, proposed_room, len(list_filter(rooms, lambda r: r = proposed_room)) AS n_of_ten, text
FROM votes
WHERE proposed_room <> room AND n_of_ten >= 7
ORDER BY n_of_ten DESC, unit_id;
