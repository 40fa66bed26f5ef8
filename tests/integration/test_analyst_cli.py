"""snapshot, sql, report, doctor and opinion as a user types them, on real databases and with input that is wrong."""

import csv
import io
import json
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

from rcll.cli.app import main
from rcll.errors import InputError
from rcll.store import migrate as migrations
from rcll.store.catalog import read_tenants
from rcll.store.connect import Database
from tests.integration.accounts import in_a_process, needs_root
from tests.integration.places import N_UNITS, fill, unit_id
from tests.integration.walks import migrated
from tests.unit.palace import unit, write_snapshot

LONG_BANK = "ü" * 300
STRANGE = ("a/b=c", LONG_BANK, "=cmd|'/c calc'!A1", "<script>alert(1)</script>")
NEWER = "20260602T023000000Z"


@pytest.fixture
def rcll(tmp_path, monkeypatch, capsys):
    """Return ``rcll(*words, url=None)``: exit code, standard output, standard error."""

    def run(*words, url=None):
        monkeypatch.setenv("RCLL_HOME", str(tmp_path / "home"))
        if url is not None:
            monkeypatch.setenv("RCLL_DATABASE_URL", url)
        monkeypatch.setattr(sys, "argv", ["rcll", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def _refused(outcome, code, *expected):
    """One line on standard error that names what was found and what to do, and nothing on standard output."""
    found, out, err = outcome
    lines = err.strip().splitlines()
    assert (found, len(lines), out) == (code, 1, ""), err
    assert lines[0].startswith("error: ")
    for words in expected:
        assert words in lines[0]


def test_snapshot_is_taken_and_asked(rcll, walk, tmp_path):
    """One command writes, the next asks it by name, in SQL, as JSON and as CSV; --prune says what went."""
    url = walk.database.url
    code, out, _ = rcll("snapshot", tmp_path / "out", "--no-embeddings", "--prune", "--keep", "1", url=url)
    assert code == 0
    assert "units" in out
    assert "pruned: 0" in out
    code, out, _ = rcll("snapshot", tmp_path / "out", "--json", "--prune", "--keep", "1")
    (made,) = json.loads(out)["snapshots"]
    assert (made["tables"]["units"]["n_rows"], len(json.loads(out)["pruned"])) == (N_UNITS, 1)
    asked = ("sql", "SELECT bank_id, count(*) AS n FROM units GROUP BY ALL ORDER BY ALL", "--from", tmp_path / "out")
    assert json.loads(rcll(*asked, "--json")[1]) == [{"bank_id": "alice", "n": 150}, {"bank_id": "bob", "n": 150}]
    assert rcll(*asked, "--csv")[1].splitlines() == ["bank_id,n", "alice,150", "bob,150"]
    assert "2 rows" in rcll(*asked)[1]
    code, out, _ = rcll("sql", "rooms_by_halls", "--from", tmp_path / "out")
    assert (code, "general" in out) == (0, True)


def test_strange_banks_pass_through_every_command(rcll, walk, tmp_path):
    """Names with slashes, of 300 letters, formulas and markup are snapshot by name, asked, reported and exported."""
    url = walk.database.url
    for name in (*STRANGE, "empty"):
        walk.do("INSERT INTO banks (bank_id) VALUES (%s)", name)
        if name != "empty":
            walk.do("INSERT INTO memory_units (bank_id, text) VALUES (%s, %s)", name, f"=1+1 {name}")
    named = [word for name in (*STRANGE, "empty") for word in ("--bank", name)]
    assert rcll("snapshot", tmp_path / "out", *named, url=url)[0] == 0
    code, out, _ = rcll("sql", "SELECT bank_id, n_units FROM banks", "--json", "--from", tmp_path / "out")
    assert {row["bank_id"]: row["n_units"] for row in json.loads(out)} == dict.fromkeys(STRANGE, 1) | {"empty": 0}
    code, out, _ = rcll("sql", "SELECT bank_id, text FROM units", "--csv", "--from", tmp_path / "out")
    cells = [cell for row in csv.reader(io.StringIO(out)) for cell in row]
    assert code == 0
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    assert f"'=1+1 {LONG_BANK}" in cells
    page = tmp_path / "palace.html"
    assert rcll("report", page, "--from", tmp_path / "out")[0] == 0
    assert "<script>alert(1)</script>" not in page.read_text()
    _refused(rcll("snapshot", tmp_path / "out", "--bank", "a/b=d"), 2, "'a/b=d'", "did you mean 'a/b=c'")
    _refused(rcll("opinion", "--from", tmp_path / "out", "--bank", "nope"), 2, "no bank 'nope'", "a/b=c")


@needs_root
def test_folder_without_rights(walk):
    """An ordinary user who may not write into a folder gets one line; nothing is read for it."""
    import os
    import tempfile

    from rcll.analyst.snapshot import take_snapshot

    url = walk.database.url
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)

        def work():
            database = Database(url, is_embedded=False)
            return take_snapshot(database, walk.tenant, folder)

        with pytest.raises(InputError, match=r"cannot be used: Permission denied; expected a folder or store that can"):
            in_a_process(work, ordinary=True)
        assert os.listdir(folder) == []  # noqa: PTH208


def test_nothing_to_ask(rcll, tmp_path):
    """No snapshot, a torn one, an unknown table or no question is one line that says what to do."""
    _refused(rcll("sql", "silos"), 2, "holds no whole snapshot", "rcll snapshot")
    write_snapshot(tmp_path / "torn", NEWER, {"units": [unit(1)]})
    next((tmp_path / "torn").rglob("units/**/*.parquet")).unlink()
    _refused(rcll("sql", "silos", "--from", tmp_path / "torn"), 2, "has 0 files of units; expected 1")
    _refused(rcll("report", tmp_path / "x.html", "--from", tmp_path / "torn"), 2, "has 0 files of units; expected 1")
    assert not (tmp_path / "x.html").exists()
    write_snapshot(tmp_path / "out", NEWER, {"units": [unit(1)]})
    _refused(rcll("sql", "FROM nowhere", "--from", tmp_path / "out"), 2, "nowhere")
    _refused(rcll("sql", "rooms_over", "--from", tmp_path / "out"), 2, "takes (threshold)", "rooms_over(200)")
    _refused(rcll("sql", "--from", tmp_path / "out"), 2, "expected one of a question, --shell, --list or --save")
    file = next((tmp_path / "out").rglob("units/**/*.parquet"))
    file.write_bytes(file.read_bytes()[:50])
    _refused(rcll("sql", "silos", "--from", tmp_path / "out"), 2, "cannot be read", "make a new snapshot")
    _refused(rcll("opinion", "--from", tmp_path / "out"), 2, "cannot be read", "make a new snapshot")


def test_older_snapshot_with_columns_missing(rcll, tmp_path):
    """What an older rcll did not write is empty; questions and the report still answer."""
    write_snapshot(tmp_path / "out", NEWER, {"units": [{"unit_id": "u1", "bank_id": "alice", "room": "auth"}]})
    code, out, _ = rcll("sql", "SELECT room, language FROM units", "--json", "--from", tmp_path / "out")
    assert (code, json.loads(out)) == (0, [{"room": "auth", "language": None}])
    assert rcll("report", tmp_path / "x.html", "--from", tmp_path / "out")[0] == 0


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM snapshots",
        "COPY units TO '{folder}/stolen.csv'",
        "FROM read_text('{folder}/secret')",
        "FROM 'https://example.org/x.parquet'",
        "ATTACH '{folder}/x.db'",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
    ],
)
def test_sql_only_reads_the_snapshot(rcll, tmp_path, statement):
    """Writes, other files, the network and settings are refused in one line with exit code 2, in the shell as well."""
    write_snapshot(tmp_path / "out", NEWER, {"units": [unit(1)]})
    (tmp_path / "secret").write_text("swordfish")
    before = sorted(tmp_path.rglob("*"))
    outcome = rcll("sql", statement.format(folder=tmp_path), "--from", tmp_path / "out")
    _refused(outcome, 2)
    assert "swordfish" not in outcome[2]
    assert sorted(tmp_path.rglob("*")) == before


def test_shell_goes_on_after_an_error(rcll, tmp_path, monkeypatch):
    """A refused statement ends itself, not the shell; questions may span lines; the end needs no semicolon."""
    write_snapshot(tmp_path / "out", NEWER, {"units": [unit(1, room="tax")]})
    monkeypatch.setattr(sys, "stdin", io.StringIO("DROP VIEW units;\nSELECT room\nFROM units;\n.list\nFROM silos\n"))
    code, out, err = rcll("sql", "--shell", "--from", tmp_path / "out")
    assert code == 0
    assert "error: found DROP" in err
    assert out.count("1 rows") == 2
    assert "rooms_by_halls" in out


def test_questions_are_listed_and_saved(rcll, tmp_path):
    """--list names every question with an example; --save writes a DuckDB file that another program opens."""
    write_snapshot(tmp_path / "out", NEWER, {"units": [unit(1, room="tax")]})
    listed = json.loads(rcll("sql", "--list", "--json")[1])
    assert {"silos", "history(unit)", "misfiled(bank)"} <= {each["name"] for each in listed}
    file = tmp_path / "analysis.duckdb"
    assert rcll("sql", "--save", file, "--from", tmp_path / "out")[0] == 0
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute("FROM silos").fetchall() == [("tax", "alice", 1)]
    _refused(rcll("sql", "--save", file, "--from", tmp_path / "out"), 2, "exists; expected a new file")


def test_report_judges_a_labelled_set(rcll, walk, tmp_path):
    """--labelled puts accuracy on the page; a line without a room is named before anything is read."""
    truth = tmp_path / "truth.jsonl"
    lines = [("The login token has expired", "auth"), ("Excise duty is due in May", "legal")]
    truth.write_text("".join(json.dumps({"text": t, "room": r, "hall": "fact"}) + "\n" for t, r in lines))
    page = tmp_path / "palace.html"
    code, out, _ = rcll("report", page, "--labelled", truth, "--json", url=walk.database.url)
    assert (code, json.loads(out)["path"]) == (0, str(page))
    assert "labelled" in page.read_text()
    assert "50" in page.read_text().split("labelled", 1)[1]
    truth.write_text('{"text": "no room here", "hall": "fact"}\n')
    _refused(rcll("report", tmp_path / "y.html", "--labelled", truth), 2, "object 1 has no 'room'")
    _refused(rcll("report", tmp_path / "y.html", "--labelled", tmp_path / "none"), 2, "none cannot be read")
    assert not (tmp_path / "y.html").exists()
    _refused(rcll("report", tmp_path / "nowhere" / "y.html"), 2, "cannot be written")


def test_doctor_says_by_its_exit_code(rcll, walk):
    """A sound database ends with 0, a broken one with 1; JSON has every finding."""
    code, out, _ = rcll("doctor", "--json", url=walk.database.url)
    assert (code, {finding["severity"] for finding in json.loads(out)}) == (0, {"note"})
    walk.run()
    walk.do("UPDATE rcll_labels SET room_source = NULL")
    code, out, _ = rcll("doctor")
    assert code == 1
    assert "broken" in out
    assert "run rcll reorganize" in out


def _two_clouds(walk):
    """Leave sixty units whose vectors lie in two clouds, auth and tax; unit 4 lies among the other room's."""
    rng = np.random.default_rng(0)
    change = "UPDATE memory_units SET text = %s, embedding = %s::vector, room = %s WHERE id = %s"
    note = "INSERT INTO rcll_labels (unit_id, bank_id, room, room_source, room_tier) VALUES (%s, %s, %s, 'rule', %s)"
    with walk.database.connect() as conn:
        for number in range(60):
            means = ("auth", "tax")[number // 2 % 2]
            stands = "tax" if number == 4 else means
            vector = rng.normal(0, 0.02, 384) + np.eye(384)[7 if means == "auth" else 9]
            text = "The login token of the nightly job has expired" if means == "auth" else "Excise duty on mead"
            conn.execute(change, [f"{text} {number}", str(vector.tolist()), stands, unit_id(number)])
            tier = "word" if number == 4 else "specific"
            conn.execute(note, [unit_id(number), ("alice", "bob")[number % 2], stands, tier])
        conn.execute("DELETE FROM memory_units WHERE text LIKE 'text %'")


def test_opinion_on_a_database(rcll, walk):
    """Units that stand elsewhere than their likes are listed with a proposal, and nothing is written."""
    _two_clouds(walk)
    before = walk.rows("SELECT * FROM rcll_labels ORDER BY unit_id")
    code, out, _ = rcll("opinion", "--bank", "alice", "--json", url=walk.database.url)
    (found,) = json.loads(out)
    assert (code, found["n_sure"], found["n_opinions"]) == (0, 29, 1)
    (doubt,) = found["opinions"]
    assert (doubt["unit_id"], doubt["room"], doubt["proposed_room"]) == (unit_id(4), "tax", "auth")
    code, out, _ = rcll("opinion", "--bank", "alice")
    assert "rcll label UNIT --room ROOM" in out
    assert walk.rows("SELECT * FROM rcll_labels ORDER BY unit_id") == before
    walk.do("DELETE FROM rcll_labels")
    assert "expected 20 with vectors in two rooms" in rcll("opinion")[2]


@pytest.mark.parametrize("n_applied", [2, 4, 5])
def test_database_of_an_older_rcll(rcll, fresh_database, monkeypatch, tmp_path, n_applied):
    """With migrations pending every look reads what is there, says how many are missing, and adds none."""
    fill(fresh_database, "hindsight")
    shipped = migrations.shipped()
    with monkeypatch.context() as older:
        older.setattr(migrations, "shipped", lambda: shipped[:n_applied])
        tenant = migrated(fresh_database)
    with fresh_database.connect() as conn:
        conn.execute(
            "INSERT INTO rcll_labels (unit_id, bank_id, room, room_source) SELECT id, bank_id, 'general', 'explicit'"
            " FROM memory_units"
        )
    url, n_pending = fresh_database.url, len(shipped) - n_applied
    code, out, _ = rcll("status", url=url)
    assert (code, f"run rcll migrate ({n_pending} pending: " in out) == (0, True)
    (status,) = json.loads(rcll("status", "--json")[1])
    assert {row["n_explicit"] for row in status["banks"]} == ({150} if n_applied >= 4 else {None})
    assert f"{n_pending} migrations are pending" in rcll("doctor")[1]
    assert rcll("snapshot", tmp_path / "out")[0] == 0
    asked = ("sql", "SELECT DISTINCT room_source FROM units", "--json", "--from", tmp_path / "out")
    assert json.loads(rcll(*asked)[1]) == [{"room_source": "explicit"}]
    for words in (("report", tmp_path / "x.html"), ("opinion",), ("runs",)):
        assert rcll(*words)[0] == 0
    with fresh_database.connect() as conn:
        assert read_tenants(conn)[0] == tenant
