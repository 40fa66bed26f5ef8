"""rcll undo, adopt and apply as a user types them: what they print, their exit codes, one-line errors."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from rcll.store.lease import hold_banks
from tests.integration.places import N_UNITS


@pytest.fixture
def rcll(walk, tmp_path):
    """Return ``rcll(*words)``: exit code, standard output and standard error of the program on this database."""

    def run(*words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RCLL_")}
        environment |= {"RCLL_HOME": str(tmp_path / "home"), "RCLL_DATABASE_URL": walk.database.url}
        command = [Path(sys.executable).parent / "rcll", *words]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


def _refused(outcome, code, *expected):
    found, _, err = outcome
    (line,) = err.strip().splitlines()
    assert (found, line[:7]) == (code, "error: ")
    for words in expected:
        assert words in line


def test_undo_says_what_came_of_it(walk, rcll):
    """A run is given back, told in words and in JSON; a second undo and an unknown run are usage errors."""
    run_id, _ = walk.run()
    code, out, _ = rcll("undo", run_id)
    assert code == 0
    assert f"{N_UNITS} units have their labels back, {N_UNITS} of them held" in " ".join(out.split())
    _refused(rcll("undo", run_id), 2, "is undone already", "--release")
    _refused(rcll("undo", str(uuid4())), 2, "no run", "rcll runs")
    _refused(rcll("undo", "yesterday"), 2, "is no run id")
    code, out, _ = rcll("undo", run_id, "--release", "--json")
    assert (code, json.loads(out)["n_released"]) == (0, N_UNITS)


def test_undo_of_a_busy_bank_exits_4(walk, rcll):
    """Another run at work on the bank is named."""
    run_id, _ = walk.run()
    with hold_banks(walk.database, walk.tenant, ["alice"], uuid4()):
        _refused(rcll("undo", run_id), 4, "bank 'alice' is in use by")


def test_adoption_is_shown_before_it_is_done(walk, rcll):
    """Without --yes only the preview; with it the labels become rcll's own."""
    walk.do("UPDATE memory_units SET room = 'misc' WHERE bank_id = 'alice'")
    code, out, err = rcll("adopt", "--bank", "alice")
    assert code == 2
    assert "nothing was adopted; say --yes" in err
    assert "misc" in out
    assert walk.rows("SELECT count(*) FROM rcll_labels") == [(0,)]
    code, out, _ = rcll("adopt", "--bank", "alice", "--yes", "--json")
    assert (code, json.loads(out)[0]["adopted"]) == (0, {"alice": 150})
    walk.run()
    assert walk.rows("SELECT DISTINCT room FROM memory_units") == [("auth",)]
    _refused(rcll("adopt", "--bank", "alic"), 2, "bank 'alic' does not exist", "'alice'")


def test_apply_of_no_plan_is_a_usage_error(rcll):
    """It is refused before Prefect starts, and says which plans there are."""
    _refused(rcll("apply", "plan-1"), 2, "no plan 'plan-1'", "run rcll plan")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_undo_that_is_stopped_gives_its_banks_back(walk, tmp_path, number):
    """Ctrl-C and SIGTERM end the lease and close the run at once; one line says that a second try finishes."""
    run_id, _ = walk.run()
    environment = os.environ | {"RCLL_HOME": str(tmp_path / "home"), "RCLL_DATABASE_URL": walk.database.url}
    command = [Path(sys.executable).parent / "rcll", "undo", run_id]
    live = "SELECT count(*) FROM rcll_leases WHERE expires_at > clock_timestamp()"
    begun = "SELECT count(*) FROM rcll_runs WHERE kind = 'undo'"
    with walk.database.connect() as conn, conn.transaction():
        conn.execute("LOCK TABLE memory_units IN EXCLUSIVE MODE")  # the undo waits, and tries again for a minute
        with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as undo:
            while walk.rows(begun) == [(0,)] and undo.poll() is None:
                time.sleep(0.05)
            undo.send_signal(number)
            _, err = undo.communicate(timeout=60)
    assert undo.returncode == 128 + number
    assert "stopped; what was committed stays, run again to finish" in err
    assert walk.rows(live) == [(0,)]
    assert walk.rows("SELECT status FROM rcll_runs ORDER BY started_at DESC LIMIT 1") == [("failed",)]
