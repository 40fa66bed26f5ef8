"""The program ``rcll``: global options, exit codes, one-line errors."""

import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from rcll import __version__
from rcll.cli import analyst, backfill, closets, data, demo, label, look, serve, taxonomy, tunnels, undo, walk
from rcll.cli.output import Notices
from rcll.errors import RcllError
from rcll.progress import notices

app = typer.Typer(
    name="rcll",
    help=(
        "Reorganise agent memory: rooms, halls, layers, closets and tunnels for banks in PostgreSQL + pgvector.\n\n"
        "Without RCLL_DATABASE_URL rcll works on its own embedded PostgreSQL under RCLL_HOME (default .rcll).\n\n"
        "Exit codes: 0 done, 1 failed, 2 usage, 3 partly done, 4 another run is busy."
    ),
    epilog="First steps: rcll demo  |  RCLL_DATABASE_URL=postgresql://… rcll plan",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for group in (demo, walk, backfill, undo, look, closets, tunnels, label, data, taxonomy, analyst, serve):
    group.register(app)

#: Exit codes of Ctrl-C (Typer's) and SIGTERM.
_STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rcll {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    """Take the options that come before a command."""


def main() -> None:
    """Run the program; known errors become one line and their exit code."""
    signal.signal(signal.SIGTERM, _end)
    notices.addHandler(Notices())
    notices.propagate = False
    try:
        app()
    except RcllError as error:
        _refuse(error)
    except SystemExit as ended:
        if ended.code in _STOPPED:
            typer.secho("stopped; what was committed stays, run again to finish", err=True, fg="yellow")
        raise
    except Exception as error:  # the driver's are known without loading it before it is needed
        if not type(error).__module__.startswith("psycopg"):
            raise
        from rcll.store.oneline import as_ours

        _refuse(as_ours(error, "the command"))


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """End in order, so that leases are given back and the run is closed."""
    sys.exit(128 + number)


def _refuse(error: RcllError) -> NoReturn:
    typer.secho(f"error: {error}", err=True, fg="red")
    sys.exit(error.exit_code)
