"""One page that shows a palace: self-contained HTML, no network, every text of a memory escaped."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rcll import __version__
from rcll.analyst import charts
from rcll.analyst.duck import Connection
from rcll.analyst.facts import Rows, closets_with_sources, hints, rows_of
from rcll.errors import InputError, RcllError
from rcll.stages.evaluate import Evaluation

_PAGE = Path(__file__).parent / "page"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the page: what it shows, its specification, and the same as a table for who cannot see it."""

    name: str
    title: str
    caption: str
    spec: charts.Spec
    columns: tuple[str, ...]
    rows: Rows


def render_report(
    connection: Connection, *, schema: str | None, threshold: int, cache: Path, evaluation: Evaluation | None = None
) -> str:
    """Build the page.

    Args:
        connection: as duck.open_snapshots gives it.
        schema: name of the tenant for the title, where it needs one.
        threshold: units of a room from which closets are expected.
        cache: folder in which the drawing script is kept; bundling it takes seconds.
        evaluation: labels against a labelled set, if there is one.
    """
    (totals,) = rows_of(connection, "totals")
    (snapshot,) = rows_of(connection, "newest")
    drawn = _charts(connection, evaluation)
    scripts = [drawing_script(cache), (_PAGE / "report.js").read_text(encoding="utf-8")]
    values: dict[str, Any] = {
        "schema": schema,
        "version": __version__,
        "snapshot": snapshot,
        "totals": totals,
        "hints": hints(connection, totals, threshold=threshold),
        "charts": {chart.name: chart for chart in drawn},
        "specs": {chart.name: chart.spec for chart in drawn},
        "closets": closets_with_sources(connection),
        "quality": rows_of(connection, "quality"),
        "languages": rows_of(connection, "languages"),
        "runs": rows_of(connection, "runs"),
        "evaluation": evaluation,
        "confusions": _confusions(evaluation),
        "style": (_PAGE / "report.css").read_text(encoding="utf-8"),
        "scripts": scripts,
        "policy": _policy(scripts),
    }
    return _environment().get_template("report.html.j2").render(values)


def write_report(page: str, file: Path) -> None:
    """Write the page, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        unfinished.write_text(page, encoding="utf-8", errors="replace")
        unfinished.replace(file)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InputError(f"{file} cannot be written: {error.strerror}; expected a file in a folder of yours") from None


def drawing_script(cache: Path) -> str:
    """Vega, Vega-Lite and vega-embed as one script, as the installed vl-convert carries them.

    Raises:
        RcllError: it could not stand inside a page.
    """
    kept = cache / f"vega-{version('vl-convert-python')}.js"
    if kept.is_file():
        script = kept.read_text(encoding="utf-8")
    else:
        script = vl_convert.javascript_bundle()  # pyright: ignore[reportCallIssue] - a stub without defaults
        try:
            cache.mkdir(parents=True, exist_ok=True)
            unfinished = kept.with_suffix(".unfinished")
            unfinished.write_text(script, encoding="utf-8")
            unfinished.replace(kept)
        except OSError:  # a home that cannot be written costs seconds, not the page
            pass
    if "</script" in script.lower():
        raise RcllError("the drawing script would end its own element; expected another vl-convert-python")
    return script


#: Name of a chart and of the query that feeds it, title, caption, and what draws it.
_CHARTS: tuple[tuple[str, str, str, Callable[[Rows], charts.Spec]], ...] = (
    ("rooms", "Rooms and halls", "Units of each room (topic) and hall (kind of knowledge).", charts.rooms_by_halls),
    ("flow", "Before and after", "Where the newest run that changed labels moved units, room to room.", charts.flow),
    ("tunnels", "Tunnels", "Banks that know of the same matters; the thicker, the more tunnels.", charts.tunnels),
    ("growth", "Growth", "New units by the time they were made.", charts.growth),
    ("layers", "Layers", "Critical units come with every recall, archived ones on request only.", charts.layers),
)


def _charts(connection: Connection, evaluation: Evaluation | None) -> list[Chart]:
    fed = [(*about, rows_of(connection, about[0])) for about in _CHARTS]
    if evaluation:
        about = ("labelled", "Against the labelled set", "Precision and recall of each room.", charts.per_label)
        fed.append((*about, _per_label(evaluation)))
    return [
        Chart(name, title, caption, draw(rows), tuple(rows[0]), rows)
        for name, title, caption, draw, rows in fed
        if rows
    ]


def _per_label(evaluation: Evaluation) -> Rows:
    rows = evaluation.room.per_label.iter_rows(named=True)
    return [
        {"label": row["label"], "measure": measure, "value": round(row[measure], 3)}
        for row in rows
        for measure in ("precision", "recall")
        if row[measure] is not None
    ]


def _confusions(evaluation: Evaluation | None) -> Rows:
    if evaluation is None:
        return []
    return [row for row in evaluation.room.confusion.iter_rows(named=True) if row["truth"] != row["predicted"]][:8]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_PAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"count": _count, "percent": _percent, "moment": _moment}
    return environment


def _count(number: int) -> str:
    return f"{number:,}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _moment(at: datetime | None) -> str:
    return "–" if at is None else f"{at:%Y-%m-%d %H:%M}"


def _policy(scripts: list[str]) -> str:
    """Content security policy: these scripts, the page's style, and no request to anywhere."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; {rest}"
