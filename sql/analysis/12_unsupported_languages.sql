-- Which banks speak a language that no rules cover? Such units end in room general without a rule having read them.
-- example: FROM unsupported_languages
CREATE VIEW unsupported_languages AS
SELECT bank_id, count(*) AS n_units, count(*) FILTER (language = 'other') AS n_unsupported,
       round(n_unsupported / n_units, 3) AS share,
       min_by(text, text_chars) FILTER (language = 'other') AS example
FROM units
GROUP BY bank_id
HAVING n_unsupported > 0
ORDER BY n_unsupported DESC, bank_id;
