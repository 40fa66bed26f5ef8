"""The one place that turns text from sql/ into trusted SQL.

A file in sql/queries holds named queries::

    -- name: count_units
    -- Units per bank.
    SELECT bank_id, count(*) FROM {units} GROUP BY bank_id;

``{word}`` stands for a name that the caller quotes with ``psycopg.sql``; values are ``%(name)s`` parameters.
"""

import re
from functools import cache
from pathlib import Path
from typing import LiteralString, cast

from psycopg import sql

from rcll.errors import RcllError
from rcll.resources import sql_dir

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def trusted(text: str, /, **names: sql.Composable) -> sql.Composed:
    """Vouch for SQL that was read from our own files, and fill in its ``{names}``."""
    return sql.SQL(cast("LiteralString", text)).format(**names)


def query(name: str, /, **names: sql.Composable) -> sql.Composed:
    """Build the query called ``name`` of sql/queries.

    Raises:
        RcllError: no such query.
    """
    text = _queries().get(name)
    if text is None:
        raise RcllError(f"no query '{name}' in {sql_dir() / 'queries'}; known: {sorted(_queries())}")
    return trusted(text, **names)


def named_texts(file: Path) -> dict[str, str]:
    """Texts of a file of named queries, by name.

    Raises:
        RcllError: a name stands twice.
    """
    parts = _NAME.split(file.read_text(encoding="utf-8"))[1:]
    names = parts[::2]
    for name in names:
        if names.count(name) > 1:
            raise RcllError(f"query '{name}' stands twice in {file.name}; expected once")
    return {name: body.strip().removesuffix(";") for name, body in zip(names, parts[1::2], strict=True)}


@cache
def _queries() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted((sql_dir() / "queries").glob("*.sql")):
        for name, body in named_texts(file).items():
            if name in found:
                raise RcllError(f"query '{name}' stands twice in sql/queries; expected once")
            found[name] = body
    return found
