-- How fast does each bank grow? Weeks begin on Monday, UTC; units without a date are left out.
-- example: FROM growth_by_week WHERE week >= DATE '2025-01-01'
CREATE VIEW growth_by_week AS
WITH weeks AS (
    SELECT bank_id, date_trunc('week', coalesce(created_at, happened_at))::DATE AS week, count(*) AS n_new
    FROM units
    WHERE coalesce(created_at, happened_at) IS NOT NULL
    GROUP BY ALL
)
SELECT bank_id, week, n_new, sum(n_new) OVER (PARTITION BY bank_id ORDER BY week)::BIGINT AS n_units
FROM weeks
ORDER BY bank_id, week;
