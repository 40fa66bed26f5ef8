"""How results look: Rich tables for people, JSON for programs, a bar for long work."""

import json
import logging
import os
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from rcll import progress

#: Exit code of a command that did a part of what it was asked.
PARTIAL = 3

#: What a terminal obeys instead of showing it.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: Columns of what is no terminal: more than any table has.
_UNBROKEN = 2_000
#: Cells up to this long stay on one line; what a longer one gets at least.
SHORT_CHARS = 24


class _Console(Console):
    """A console on which a memory's text moves no cursor and sets no colour or title: control characters are shown."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does."""
        super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)


def visible(text: str) -> str:
    """The text with control characters, but line ends and tabs, replaced by a sign."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _console(*, stderr: bool) -> Console:
    """A console that breaks lines for people at a terminal, and for nobody else: in a file a command stays whole."""
    console = _Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.soft_wrap = True
        if "COLUMNS" not in os.environ:
            console.width = _UNBROKEN
    return console


#: Results go to standard output, everything about them to standard error.
out = _console(stderr=False)
err = _console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Banks = Annotated[list[str] | None, typer.Option("--bank", help="Only this bank; repeatable.", show_default=False)]
Schemas = Annotated[
    list[str] | None,
    typer.Option("--schema", help="Only this PostgreSQL schema (tenant); repeatable.", show_default=False),
]
TaxonomyFile = Annotated[
    str | None, typer.Option("--taxonomy", help="TOML file that extends or replaces the shipped taxonomy.")
]
Layers = Annotated[bool, typer.Option("--layers", help="Let layer rules decide; without it every layer is 2.")]


Rate = Annotated[float | None, typer.Option("--rate", min=0.1, help="Units written in a second at most.")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Units written in one transaction at most.")]


Archive = Annotated[
    bool,
    typer.Option("--archive-sources", help="Move the sources of closets, less the most central, to layer 3."),
]
MaxCalls = Annotated[int | None, typer.Option("--max-calls", min=0, help="Model calls of the run at most.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=0, help="Tokens of the run, in and out, at most.")]


def print_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; numbers stand right, cells are text and never markup.

    Where the terminal is too narrow for it, each row becomes a few lines: short cells on one, each long one below.
    """
    body = [["" if cell is None else cell for cell in row] for row in rows]
    texts = [[f"{cell:,}" if isinstance(cell, int) else visible(str(cell)) for cell in row] for row in body]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    is_short = [width <= SHORT_CHARS for width in widths]
    fits = sum(min(width, SHORT_CHARS) + 3 for width in widths) + 1 <= out.width
    if not fits and not all(is_short):
        _print_records(title, columns, texts, is_short)
        return
    table = Table(title=title, title_justify="left", header_style="bold")
    for number, name in enumerate(columns):
        is_number = bool(body) and all(isinstance(row[number], int | float) for row in body)
        table.add_column(
            name, justify="right" if is_number else "left", overflow="fold", no_wrap=fits and is_short[number]
        )
    for row in texts:
        table.add_row(*map(escape, row))
    out.print(table)


def _print_records(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], is_short: Sequence[bool]) -> None:
    out.print(title, markup=False, style="italic")
    for row in rows:
        cells = list(zip(columns, row, is_short, strict=True))
        head = ", ".join(f"{name} {cell}" for name, cell, short in cells if short and cell)
        out.print(head, markup=False, style="bold")
        for name, cell, short in cells:
            if not short and cell:
                out.print(Padding(Text(f"{name}: {cell}"), (0, 0, 0, 2)))


def shorten(text: str | None, limit: int = 100) -> str:
    """A text on one line, cut at ``limit`` characters."""
    line = " ".join((text or "").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def use_rules(taxonomy: str | None, layers: bool) -> None:
    """Let options of this command stand above RCLL_TAXONOMY and RCLL_LAYERS, in tasks too."""
    if taxonomy:
        os.environ["RCLL_TAXONOMY"] = taxonomy
    if layers:
        os.environ["RCLL_LAYERS"] = "true"


def use_limits(rate: float | None, batch: int | None) -> None:
    """Let options of this command stand above RCLL_RATE and RCLL_BATCH."""
    if rate is not None:
        os.environ["RCLL_RATE"] = str(rate)
    if batch is not None:
        os.environ["RCLL_BATCH"] = str(batch)


def use_closets(*, archive_sources: bool, max_calls: int | None, max_tokens: int | None) -> None:
    """Let options of this command stand above RCLL_ARCHIVE_SOURCES, RCLL_MAX_CALLS and RCLL_MAX_TOKENS."""
    if archive_sources:
        os.environ["RCLL_ARCHIVE_SOURCES"] = "true"
    if max_calls is not None:
        os.environ["RCLL_MAX_CALLS"] = str(max_calls)
    if max_tokens is not None:
        os.environ["RCLL_MAX_TOKENS"] = str(max_tokens)


@contextmanager
def progress_bars() -> Generator[None]:
    """Draw a bar for every stage that reports; nothing where standard error is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars,
        progress.listen(_Bars(bars)),  # the bars say it; Prefect's console handler would repeat it
    ):
        yield


class _Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        """Draw the number."""
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="dim")


class Notices(logging.Handler):
    """Prints the lines of rcll.progress.notice among the results' companions."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the line."""
        err.print(record.getMessage(), markup=False, style="yellow")


class _Bars(logging.Handler):
    """Turns the records of rcll.progress into bars."""

    def __init__(self, bars: Progress) -> None:
        super().__init__()
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Move the bar of the record's stage."""
        values = record.__dict__
        stage: str = values["stage"]
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage)
        self._bars.update(self._tasks[stage], completed=values["done"], total=values["total"])


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
