"""``rcll closets`` as a user types it, without and with a model: exit codes, one-line errors, what is left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rcll.store.lease import hold_banks
from rcll.store.ledger import start_run
from tests.doubles import openai_double as double_
from tests.integration.closet_walks import MATTER, closets, condense, note_again_and_again
from tests.integration.places import unit_id
from tests.integration.walks import Walk, migrated


@pytest.fixture
def walk(make_template, clone, tmp_path):
    """Alice notes one matter again and again."""
    database = clone(make_template("closets", lambda fresh: note_again_and_again(fresh, tmp_path)))
    return Walk(database, migrated(database), tmp_path)


@pytest.fixture
def rcll(walk, tmp_path):
    """Return ``rcll(*words, **environment)``: exit code, standard output, lines of standard error."""

    def run(*words: str, **environment: str):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("RCLL_", "OPENAI_"))}
        own = {"RCLL_HOME": str(tmp_path / "home"), "RCLL_DATABASE_URL": walk.database.url, "COLUMNS": "200"}
        done = subprocess.run(
            [Path(sys.executable).parent / "rcll", "closets", *words],
            env=clean | own | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if line.strip()]

    return run


@pytest.fixture
def model(openai_double):
    """Variables that name the double."""
    return {
        "RCLL_SUMMARY_MODEL": double_.MODEL,
        "RCLL_SUMMARY_BASE_URL": openai_double.base_url,
        "RCLL_SUMMARY_API_KEY": double_.KEY,
    }


def test_create_show_refresh_drop_with_a_model(walk, rcll, openai_double, model):
    """The model is asked once for each closet; a fault is exit 3 with its reason, and the next refresh mends it."""
    code, out, err = rcll("create", "--bank", "alice", *MATTER[:3], "--hall", "warning", "--json", **model)
    assert (code, err) == (0, [])
    made = json.loads(out)
    assert (made["model"], made["hall"], made["status"]) == (double_.MODEL, "warning", "fresh")
    code, out, _ = rcll("show", made["closet_id"][:8])
    assert code == 0
    assert "fresh, by test-model, asked for" in out
    assert all(unit in out for unit in MATTER[:3])
    assert rcll("refresh", **model)[1].startswith("schema public: 0 closets written anew")
    walk.do("UPDATE memory_units SET text = text || ' Again.' WHERE id = %s", MATTER[0])
    openai_double.faults.append(double_.REFUSAL)
    code, out, err = rcll("refresh", "--bank", "alice", **model)
    assert (code, err) == (3, [])
    assert "1 failed; 1 model calls" in " ".join(out.split())
    assert "closet failed: the model refused" in out
    assert "failed" in rcll("list")[1]
    code, out, _ = rcll("refresh", made["closet_id"][:8], "--json", **model)
    assert (code, json.loads(out)[0]["n_written"], openai_double.n_requests) == (0, 1, 3)
    code, out, _ = rcll("drop", made["closet_id"])
    assert code == 0
    assert "its 3 units stay" in out
    assert closets(walk) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RCLL_SUMMARY_API_KEY": "sk-wrong-key"}, "correct RCLL_SUMMARY_API_KEY"),
        ({"RCLL_SUMMARY_MODEL": double_.UNKNOWN_MODEL}, "correct RCLL_SUMMARY_MODEL"),
        ({"RCLL_SUMMARY_BASE_URL": "http://127.0.0.1:9/v1"}, "check RCLL_SUMMARY_BASE_URL"),
    ],
    ids=["401", "404", "nobody-listens"],
)
def test_model_that_cannot_work_is_one_line(walk, rcll, model, changes, message):
    """A wrong key, name or address: exit 1, the setting to correct, no key in it, and nothing written."""
    code, _, err = rcll("create", "--bank", "alice", *MATTER[:3], **model | changes)
    assert (code, len(err)) == (1, 1)
    assert message in err[0]
    assert "sk-wrong" not in err[0]
    assert closets(walk) == []
    assert walk.rows("SELECT count(*) FROM rcll_explicit") == [(0,)]


def test_list_with_and_without_closets(walk, rcll):
    """No closet is an empty table and an empty list; an automatic one is listed with its freshness and sources."""
    assert rcll("--json")[:2] == (0, "[]\n")
    condense(walk)
    walk.do("UPDATE memory_units SET text = text || ' Again.' WHERE id = %s", MATTER[0])
    (listed,) = json.loads(rcll("list", "--bank", "alice", "--room", "auth", "--json")[1])
    assert (listed["status"], listed["model"], listed["is_explicit"]) == ("stale", "extractive", False)
    assert sorted(listed["unit_ids"]) == sorted(MATTER)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "zz"), "'zz' is no closet id"),
        (("refresh", "abcd", "--bank", "alice"), "found ids beside --bank"),
        (("create", "--bank", "alice", unit_id(1)), "bank 'alice' has no unit"),
        (("list", "--bank", "nobody"), "'nobody'"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else each[:20],
)
def test_wrong_words_are_one_line(rcll, words, message):
    """Exit 2 and one line that says what was found and expected."""
    code, _, err = rcll(*words)
    assert (code, len(err)) == (2, 1), err
    assert message in err[0]


def test_bank_that_a_run_holds(walk, rcll):
    """Exit 4 while another run holds the bank."""
    with walk.database.connect() as conn:
        run_id = start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
    with hold_banks(walk.database, walk.tenant, ["alice"], run_id):
        code, _, err = rcll("create", "--bank", "alice", *MATTER[:3])
    assert (code, len(err)) == (4, 1)
