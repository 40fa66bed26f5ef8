"""The steps of the walk: Parquet and database at the ends, pure stages in the middle."""
