"""Small banks in, a palace out: the demo as a user runs it, and every rule of sql/checks afterwards."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rcll.demo import explicit_examples
from rcll.frames import HALL_ORDER
from rcll.store.catalog import read_tenants
from rcll.store.checks import run_checks
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from tests.acceptance.pages import answered

DATABASE = "rcll_demo"
PAGE = Path(__file__).parents[2] / "docs" / "analysts.md"
#: What stands before names folders of somebody's own.
_FROM_HERE = "## Ten questions"


@pytest.fixture(scope="module")
def home():
    """RCLL_HOME of the module, in a folder with a space that every account may enter."""
    folder = Path(tempfile.mkdtemp(prefix="rcll demo "))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def _rcll(home: Path, *words: str):
    program = Path(sys.executable).parent / "rcll"
    environment = os.environ | {"RCLL_HOME": str(home), "RCLL_DATABASE": DATABASE}
    done = subprocess.run(
        [program, *words, "--json"], env=environment, cwd=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def demo(home):
    """What `rcll demo --json` prints."""
    return _rcll(home, "demo")


def test_demo_makes_a_palace(demo):
    """About 3,000 units of three banks fill all rooms and halls; closets and tunnels are there."""
    labels = demo["labels"]
    assert 2500 <= labels["n_units"] <= 3500
    assert len(labels["per_bank"]) == 3
    assert set(labels["after"]["hall"]) == set(HALL_ORDER)
    assert len(labels["after"]["room"]) == 14
    assert labels["after"]["room"]["general"] < 0.5 * labels["n_units"]
    assert demo["closets"]["n_new"] > 20
    assert demo["tunnels"]["n_new"] > 10
    assert demo["closets"]["n_failed"] == 0
    for closet in demo["some_closets"]:
        assert closet["title"]
        assert closet["summary"]
        assert len(closet["unit_ids"]) >= 3
    for tunnel in demo["some_tunnels"]:
        assert tunnel["source_bank_id"] != tunnel["target_bank_id"]


def test_explicit_labels_were_kept(demo, home):
    """The labels that somebody set before the run stand after it."""
    assert demo["labels"]["n_explicit"] == len(explicit_examples())
    with EmbeddedServer(home) as server, Database(server.url(DATABASE), is_embedded=True).connect() as conn:
        for example in explicit_examples():
            stored = conn.execute("SELECT room, hall, layer FROM memory_units WHERE id = %s", [example.unit_id])
            assert stored.fetchone() == (example.room, example.hall, example.layer)


def test_checks_are_empty(demo, home):
    """No rule that must always hold is broken."""
    with EmbeddedServer(home) as server, Database(server.url(DATABASE), is_embedded=True).connect() as conn:
        (tenant,) = read_tenants(conn)
        assert run_checks(conn, tenant) == {}


def test_second_run_writes_nothing(demo, home):
    """Run again, without the demo's tunnel pairs it would drop tunnels, with them it writes nothing."""
    os.environ["RCLL_TUNNEL_PAIRS"] = json.dumps([["hollowcomb-*", "hollowcomb-*"]])
    try:
        (again,) = _rcll(home, "reorganize")
    finally:
        del os.environ["RCLL_TUNNEL_PAIRS"]
    assert (again["loaded"]["n_written"], again["loaded"]["n_recorded"]) == (0, 0)
    for stage in ("closets", "tunnels"):
        assert (again[stage]["n_new"], again[stage]["n_gone"]) == (0, 0)


def test_data_survive_from_command_to_command(demo, home):
    """A later command finds what the demo left, and knows its run."""
    (status,) = _rcll(home, "status")
    assert sum(bank["n_units"] for bank in status["banks"]) == demo["labels"]["n_units"]
    assert status["pending"] == []
    assert any(run["run_id"] == demo["run_id"] for run in _rcll(home, "runs"))
    assert _rcll(home, "explain", demo["some_closets"][0]["unit_ids"][0])["unit"]["room"]


def test_answers_on_the_analysts_page(demo, home, request):
    """Every question of docs/analysts.md gives the answer that stands there; last, since one of them sets a label.

    ``pytest tests/acceptance/test_demo.py --update`` writes the answers anew.
    """
    first, *rest = PAGE.read_text(encoding="utf-8").split(_FROM_HERE)
    found = first + "".join(_FROM_HERE + answered(part, home) for part in rest)
    if request.config.getoption("--update"):
        PAGE.write_text(found, encoding="utf-8")
    assert found.count("\n$ ") == 12
    assert found.splitlines() == PAGE.read_text(encoding="utf-8").splitlines(), "say --update if the answers are right"
