"""A look at the live database from DuckDB, read-only, next to the snapshots; needs the extra ``live``.

The scanner brings functions that send any text to any server; they are refused, so that a query reaches the
attached database, in a read-only transaction, and nothing else.
"""

import importlib.util
import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from rcll.analyst.duck import Connection, lock
from rcll.errors import InputError
from rcll.store.connect import Database, without_password

_PACKAGE = "duckdb_extension_postgres_scanner"
#: Functions that open connections of their own, send text as it is, or hide a query in a string.
_REFUSED = ("postgres_", "read_postgres_", "pg_clear_cache", "query")


@contextmanager
def open_live(database: Database) -> Generator[Connection]:
    """Open DuckDB with the database attached as ``pg``, locked.

    Raises:
        InputError: the extension is missing or is none for this DuckDB.
    """
    address, password = without_password(database.url)
    with duckdb.connect(":memory:") as connection, _password_for_libpq(password):
        try:
            connection.execute(f"LOAD '{_extension()}'")
            connection.execute(f"ATTACH '{_quoted(address)}' AS pg (TYPE postgres, READ_ONLY)")
        except duckdb.Error as error:
            reason = str(error).splitlines()[0][:200]
            raise InputError(f"the live database cannot be attached: {reason}; leave --live out") from None
        lock(connection, [])
        yield connection


def check_live(connection: Connection, sql: str) -> None:
    """Refuse a query that calls what reaches beyond the attached database.

    Raises:
        InputError: such a function, or a statement that is no plain SELECT.
    """
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    tree: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
    if tree.get("error"):
        raise InputError("found a statement that is no plain SELECT; expected one; --live allows nothing else")
    for name in _functions(tree):
        if name == "duckdb_databases" or name.startswith(_REFUSED):
            raise InputError(f"function {name} is not allowed with --live; expected a query of tables such as pg.banks")


def _functions(node: Any) -> Iterator[str]:
    """Names of all functions of a statement, however deep."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "function_name":
                yield str(value).lower()
            yield from _functions(value)
    elif isinstance(node, list):
        for value in node:
            yield from _functions(value)


def _extension() -> str:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError("--live needs a package that is not installed; say pip install 'rcll[live]'")
    folder = Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}"
    file = folder / "postgres_scanner.duckdb_extension"
    if not file.is_file():
        raise InputError(
            f"--live finds no extension for DuckDB {duckdb.__version__}; expected one of the installed version; "
            f"say pip install 'rcll[live]'"
        )
    return _quoted(str(file))


@contextmanager
def _password_for_libpq(password: str | None) -> Generator[None]:
    """Hand the password over by the environment: DuckDB shows addresses to whoever asks for its databases."""
    before = os.environ.get("PGPASSWORD")
    if password is not None:
        os.environ["PGPASSWORD"] = password
    try:
        yield
    finally:
        if password is not None:
            os.environ.pop("PGPASSWORD", None)
            if before is not None:
                os.environ["PGPASSWORD"] = before


def _quoted(text: str) -> str:
    return text.replace("'", "''")
