"""The report in a real browser: drawn, folded, quiet, and proof against what a memory may say."""

from datetime import UTC, datetime, timedelta

import pytest

from rcll.analyst.duck import open_snapshots
from rcll.analyst.report import render_report, write_report
from rcll.errors import InputError
from tests.doubles.chromium import chromium
from tests.unit.palace import unit, write_snapshot

HOSTILE = (
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 2</script>",
    "<img src=https://example.org/x onerror='window.pwned = 3'>",
    '"><svg onload=window.pwned=4>',
    "{{ 7 * 7 }} ${window.pwned = 5}",
    "\u202eright to left\u0000",
)
CHARTS = ["rooms", "flow", "tunnels", "growth", "layers"]
DRAWN = "document.body.dataset.drawn || document.body.dataset.failed"


def _tables():
    """Three banks whose names, rooms and texts are hostile; a run, closets, tunnels."""
    banks, rooms = ("alice", "bob", HOSTILE[0]), ("auth", "tax", HOSTILE[1])
    start = datetime(2026, 1, 5, tzinfo=UTC).replace(tzinfo=None)
    units = [
        unit(n, banks[n % 3], rooms[n % 2 + n % 5 // 4], text=HOSTILE[n % 6], layer=n % 4)
        | {"created_at": start + timedelta(days=n)}
        for n in range(90)
    ]
    run = {"run_id": "run-1", "kind": "reorganize", "status": "done", "started_at": start, "taxonomy_hash": "T"}
    changes = [
        {"run_id": "run-1", "unit_id": each["unit_id"], "bank_id": each["bank_id"], "old_room": "general"}
        | {"room": each["room"], "old_hall": "fact", "hall": "fact", "changed_at": start}
        for each in units
    ]
    closets = [
        {"closet_id": f"c{n}", "bank_id": bank, "room": "auth", "hall": "fact", "status": status, "model": "m"}
        | {"title": HOSTILE[n], "summary": HOSTILE[2], "n_sources": 3, "n_read": 3, "is_extractive": True}
        for n, (bank, status) in enumerate(zip(banks, ("fresh", "stale", "failed"), strict=True))
    ]
    sources = [
        {"closet_id": f"c{n}", "bank_id": "alice", "unit_id": f"u00{rank}", "rank": rank, "is_stale": rank == 1}
        for n in range(3)
        for rank in range(3)
    ]
    tunnels = [
        {"tunnel_id": str(n), "bank_id": banks[n % 3], "target_bank_id": banks[(n + 1) % 3], "room": "auth"}
        | {"relationship": HOSTILE[3], "score": 0.5, "method": "auto"}
        for n in range(5)
    ]
    quality = [{"bank_id": bank, "n_units": 30, "general_share": 0.1, "largest_share": 0.5} for bank in banks]
    shares = {"undecided_share": 0.1, "unsupported_share": 0.0, "explicit_share": 0.0, "largest_room": HOSTILE[1]}
    return {
        "units": units,
        "runs": [run],
        "changes": changes,
        "closets": closets,
        "closet_sources": sources,
        "tunnels": tunnels,
        "quality": [row | shares for row in quality],
    }


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where the drawing script is kept for the module."""
    return tmp_path_factory.mktemp("cache")


def _page(folder, cache, tables):
    write_snapshot(folder / "snapshots", "20260601T023000000Z", tables)
    with open_snapshots(str(folder / "snapshots")) as connection:
        page = render_report(connection, schema=None, threshold=20, cache=cache)
    write_report(page, folder / "palace.html")
    return folder / "palace.html"


def test_report_in_a_browser(tmp_path, cache):
    """Charts have marks, closets unfold, nothing is logged, asked for or executed; at desktop and phone width."""
    file = _page(tmp_path, cache, _tables())
    assert file.stat().st_size < 5_000_000
    with chromium() as page:
        for width, scheme in ((1280, "light"), (390, "dark")):
            page.size(width, 900, scheme=scheme)
            page.open(file, DRAWN)
            assert page.ask("document.body.dataset.failed") is None
            for chart in CHARTS:
                role = f"#chart-{chart} .role-mark"
                marks = f"document.querySelectorAll('{role} path, {role} text').length"
                assert page.ask(marks) > 2, chart
                assert page.ask(f"document.querySelector('#chart-{chart} svg').getBoundingClientRect().height") > 50
            assert page.ask("document.documentElement.scrollWidth") == width
            assert page.screenshot(tmp_path / f"{width}.png").stat().st_size > 20_000
        closed = "document.querySelector('.closet .sources').checkVisibility()"
        assert page.ask(closed) is False
        page.ask("document.querySelector('.closet summary').click()")
        assert page.ask(closed) is True
        assert page.ask("document.querySelector('.closet .title').textContent") in HOSTILE
        assert page.ask("window.pwned") is None
        assert page.ask("document.querySelectorAll('img, iframe, object, link[rel=stylesheet]').length") == 0
        assert page.ask("document.body.innerText.includes('rcll undo run-1')")
        assert page.errors == []
        assert set(page.requests) <= {file.as_uri(), "data:,"}


def test_page_can_be_read_without_seeing_or_mouse(tmp_path, cache):
    """One main heading, charts described and repeated as tables, tables that scroll by key, a printable page."""
    file = _page(tmp_path, cache, _tables())
    with chromium() as page:
        page.open(file, DRAWN)
        assert page.ask("document.documentElement.lang") == "en"
        assert page.ask("document.querySelectorAll('h1').length") == 1
        assert page.ask(
            "[...document.querySelectorAll('.chart svg')].every(s => s.getAttribute('aria-label')"
            " || s.closest('[aria-label]') || s.querySelector('[aria-label]'))"
        )
        assert page.ask("document.querySelectorAll('figure .numbers table').length") == len(CHARTS)
        assert page.ask("[...document.querySelectorAll('.scroll')].every(s => s.tabIndex === 0 && s.ariaLabel)")
        page.call("Emulation.setEmulatedMedia", media="print")
        assert page.ask("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_empty_palace_has_a_page(tmp_path, cache):
    """Banks without units are said to be empty; there is nothing to draw."""
    file = _page(tmp_path, cache, {})
    assert "The banks hold no units yet." in file.read_text()
    with chromium() as page:
        page.open(file, "document.body.dataset.drawn === '0'")
        assert page.errors == []


def test_page_that_cannot_be_written(tmp_path):
    """A folder that does not exist is one line, and nothing is left behind."""
    with pytest.raises(InputError, match="cannot be written: No such file"):
        write_report("x", tmp_path / "nowhere" / "page.html")
    assert list(tmp_path.iterdir()) == []
