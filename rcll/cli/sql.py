"""``rcll sql``: questions to snapshots, by name or in SQL, and to the live database where it is asked for."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rcll.cli.output import Json, err, out, print_json, print_table, shorten
from rcll.errors import InputError, RcllError
from rcll.settings import load_settings

From = Annotated[
    str | None,
    typer.Option("--from", metavar="DIR", help="Folder or store of snapshots; default storage/snapshots."),
]
Schema = Annotated[str | None, typer.Option("--schema", help="Tenant, where the folder holds several.")]
_WIDEST = 80


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(sql)


def sql(
    question: Annotated[
        str | None, typer.Argument(metavar="SQL", help="A question by its name, or a SELECT.", show_default=False)
    ] = None,
    folder: From = None,
    schema: Schema = None,
    shell: Annotated[bool, typer.Option("--shell", help="Ask one question after another.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Ask the live database instead, attached as pg.")] = False,
    names: Annotated[bool, typer.Option("--list", help="List the questions that have a name.")] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write a DuckDB file with all views, for other tools."),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV; texts that look like formulas are quoted.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows of a table at most; JSON and CSV have all.")] = 50,
    json: Json = False,
) -> None:
    """Ask the newest snapshot in SQL (DuckDB). Only reading is possible, and only of the snapshots.

    Examples: rcll sql --list | rcll sql silos | rcll sql "FROM rooms_over(500)" --csv | rcll sql --shell
    """
    if sum([question is not None, shell, names, save is not None]) != 1:
        raise InputError("expected one of a question, --shell, --list or --save; see rcll sql --help")
    if names:
        _list_questions(json=json)
        return
    if save is not None:
        _save(folder, schema, save)
        return
    with _opened(folder, schema, live=live) as answer:
        if shell:
            _shell(answer, limit)
        elif question is not None:
            _print(*answer(question), json=json, csv=csv, limit=limit)


@contextmanager
def _opened(folder: str | None, schema: str | None, *, live: bool) -> Generator[Any]:
    """A function that answers one question with the names of its columns and a cursor."""
    from rcll.analyst.duck import ask, open_snapshots
    from rcll.analyst.live import check_live, open_live

    if not live:
        with open_snapshots(folder or load_settings().snapshots, schema=schema) as connection:

            def answer(question: str) -> Any:
                return ask(connection, _spelled_out(question))

            yield answer
        return
    from rcll.walk.place import open_places

    with open_places([schema] if schema else ()) as places, open_live(places[0].database) as connection:

        def answer_live(question: str) -> Any:
            check_live(connection, question)
            return ask(connection, question)

        yield answer_live


def _spelled_out(question: str) -> str:
    """A bare name of a question as a query."""
    from rcll.analyst.questions import load_questions

    named = {each.name: each for each in load_questions()}.get(question.strip().lower())
    if named is None:
        return question
    if named.parameters:
        raise InputError(f"question {named.name} takes {named.parameters}; expected for example: {named.example}")
    return f"FROM {named.name}"


def _list_questions(*, json: bool) -> None:
    from rcll.analyst.questions import load_questions

    rows = [(each.name + each.parameters, each.comment, each.example) for each in load_questions()]
    if json:
        print_json([dict(zip(("name", "question", "example"), row, strict=True)) for row in rows])
        return
    print_table("questions that have a name", ("name", "question", "example"), rows)


def _save(folder: str | None, schema: str | None, file: Path) -> None:
    from rcll.analyst.duck import save_views
    from rcll.analyst.layout import list_snapshots
    from rcll.analyst.stores import is_remote

    target = folder or load_settings().snapshots
    if is_remote(target):
        raise InputError(f"{target} is no local folder; expected one: the file names Parquet files by their paths")
    save_views(list_snapshots(Path(target).absolute(), schema), file)
    out.print(f"wrote {file}: views and macros, no data; open it with any DuckDB of this version", markup=False)


def _print(columns: list[str], cursor: Any, *, json: bool, csv: bool, limit: int) -> None:
    from rcll.analyst.duck import rows_of
    from rcll.analyst.export import write_csv

    rows, has_more = rows_of(cursor, None if json or csv else limit)
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif csv:
        write_csv(sys.stdout, columns, rows)
    else:
        shown = [[shorten(cell, _WIDEST) if isinstance(cell, str) else cell for cell in row] for row in rows]
        print_table("", columns, shown)
        more = "; there are more, say --limit, --json or --csv" if has_more else ""
        out.print(f"{len(rows):,} rows{more}")


def _shell(answer: Any, limit: int) -> None:
    """Read questions until the end of input; an error ends the question, not the shell."""
    if sys.stdin.isatty():
        __import__("readline")  # line editing and history for input()

        err.print("ask in SQL, end with ;   names of questions: .list   leave: .quit")
    for question in _questions():
        try:
            if question == ".list":
                _list_questions(json=False)
            else:
                _print(*answer(question), json=False, csv=False, limit=limit)
        except RcllError as error:
            err.print(f"error: {error}", markup=False, style="red", soft_wrap=True)
        except KeyboardInterrupt:
            err.print("stopped")


def _questions() -> Generator[str]:
    """Statements of standard input, each up to its semicolon, or a dot command."""
    lines: list[str] = []
    prompt = sys.stdin.isatty()
    while True:
        try:
            line = input(("   ...> " if lines else "rcll> ") if prompt else "")
        except EOFError:
            line, is_over = "", True
        except KeyboardInterrupt:
            lines = []
            continue
        else:
            is_over = line.strip() in {".quit", ".exit"}
        if is_over:
            if any(part.strip() for part in lines):
                yield "\n".join(lines)
            return
        if not lines and line.strip().startswith("."):
            yield line.strip()
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines = []
