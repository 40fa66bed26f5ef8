"""The named questions of sql/analysis: one view or table macro a file, its comment is its documentation."""

import re
from dataclasses import dataclass
from functools import cache

from rcll.errors import RcllError
from rcll.resources import sql_dir

_CREATE = re.compile(r"^CREATE (VIEW|MACRO) (\w+)(\([^)]*\))?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Question:
    """A view, or a macro with parameters, and a query that shows it at work."""

    name: str
    parameters: str
    comment: str
    example: str
    needs_embeddings: bool
    sql: str


@cache
def load_questions() -> tuple[Question, ...]:
    """All questions in the order of their files.

    Raises:
        RcllError: a file that is not one question with a comment and an example.
    """
    return tuple(_read(file.stem, file.read_text(encoding="utf-8")) for file in sorted(_files()))


def _files():  # noqa: ANN202 - a generator of paths
    return (sql_dir() / "analysis").glob("*.sql")


def _read(stem: str, text: str) -> Question:
    head = [line[3:] for line in text.splitlines() if line.startswith("-- ")]
    notes = dict(line.split(": ", 1) for line in head if line.startswith(("example: ", "needs: ")))
    comment = " ".join(line for line in head if not line.startswith(("example: ", "needs: ")))
    found = _CREATE.search(text)
    if found is None or not comment or "example" not in notes:
        raise RcllError(f"sql/analysis/{stem}.sql is no question; expected a comment, an example and one CREATE")
    return Question(
        name=found[2],
        parameters=found[3] or "",
        comment=comment,
        example=notes["example"],
        needs_embeddings=notes.get("needs") == "embeddings",
        sql=text,
    )
