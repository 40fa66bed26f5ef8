"""What analysts get: snapshots in Parquet, DuckDB over them, a report, a doctor, a second opinion."""
