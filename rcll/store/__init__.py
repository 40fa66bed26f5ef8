"""The only users of psycopg: embedded server, catalog, migrations, extract, load, ledger, lease."""
