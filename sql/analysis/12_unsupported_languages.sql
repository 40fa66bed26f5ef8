-- Which banks speak a language that no rules cover? Such units end in room general without a rule having read them.
-- example: FROM unsupported_languages
CREATE VIEW unsupported_languages AS
WITH shortest AS (
    SELECT bank_id, min_by(text, text_chars) AS example FROM units WHERE language = 'other' GROUP BY bank_id
), counts AS (
    SELECT bank_id, count(*) AS n_units, count(*) FILTER (language = 'other') AS n_unsupported
    FROM units
    GROUP BY bank_id
)
SELECT bank_id, n_units, n_unsupported, round(n_unsupported / n_units, 3) AS share, example
FROM counts JOIN shortest USING (bank_id)
ORDER BY n_unsupported DESC, bank_id;
