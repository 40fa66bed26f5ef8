"""What analysts get: snapshots in Parquet, DuckDB over them, a report, and a doctor."""
