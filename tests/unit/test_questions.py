"""Every named question against data whose answer is known, and what a reader may not do."""

import math
import resource
import signal
from datetime import date, datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcll.analyst.duck import ask, open_snapshots, rows_of, save_views
from rcll.analyst.export import as_text_cell
from rcll.analyst.layout import list_snapshots
from rcll.analyst.questions import load_questions
from rcll.errors import InputError
from tests.unit.palace import unit, write_snapshot

OLDER, NEWER = "20260601T023000000Z", "20260602T023000000Z"


@pytest.fixture
def answers(tmp_path):
    """Return ``answers(sql, **tables)``: rows of a question to one snapshot of these tables."""

    def answer(sql, **tables):
        write_snapshot(tmp_path, NEWER, tables)
        with open_snapshots(str(tmp_path)) as connection:
            return ask(connection, sql)[1].fetchall()

    return answer


def test_every_question_answers_an_empty_snapshot(tmp_path):
    """Each view and macro has a comment, and works where there is nothing at all."""
    write_snapshot(tmp_path, NEWER, {})
    with open_snapshots(str(tmp_path)) as connection:
        for question in load_questions():
            assert len(question.comment) > 20
            assert ask(connection, question.example)[1].fetchall() == []


def test_rooms_by_halls(answers):
    """One row a room; a hall outside the seven counts as other, a missing one as the default."""
    units = [unit(1), unit(2, hall="warning"), unit(3, hall="saga"), unit(4, hall=None), unit(5, room="tax")]
    rows = answers("SELECT room, n_units, warning, fact, other FROM rooms_by_halls", units=units)
    assert rows == [("auth", 4, 1, 2, 1), ("tax", 1, 0, 1, 0)]


def test_growth_by_week(answers):
    """Weeks begin on Monday and add up per bank; a unit without any date is left out."""
    days = {
        1: datetime.fromisoformat("2026-01-05"),
        2: datetime.fromisoformat("2026-01-11"),
        3: datetime.fromisoformat("2026-01-12"),
    }
    units = [unit(n, created_at=day) for n, day in days.items()]
    units += [unit(4, created_at=None), unit(5, "bob", created_at=datetime.fromisoformat("2026-01-07"))]
    assert answers("FROM growth_by_week", units=units) == [
        ("alice", date(2026, 1, 5), 2, 2),
        ("alice", date(2026, 1, 12), 1, 3),
        ("bob", date(2026, 1, 5), 1, 1),
    ]


def test_drift_between_snapshots(tmp_path, answers):
    """Units that came, went and moved since the snapshot before; of one snapshot alone nothing is said."""
    units = [unit(1, room="tax"), unit(2), unit(4), unit(5, layer=0)]
    sql = "SELECT what, old_room, room, old_layer, layer, n_units FROM drift_between_snapshots ORDER BY ALL"
    assert answers(sql, units=units) == []
    write_snapshot(tmp_path, OLDER, {"units": [unit(1), unit(2), unit(3), unit(5)]})
    with open_snapshots(str(tmp_path)) as connection:
        assert connection.execute(sql).fetchall() == [
            ("gone", "auth", None, 2, None, 1),
            ("moved", "auth", "auth", 2, 0, 1),
            ("moved", "auth", "tax", 2, 2, 1),
            ("new", None, "auth", None, 2, 1),
        ]


def test_drift_between_taxonomies(answers):
    """Changes of runs under other rules count; same rules, an undo, or a layer alone do not."""
    runs = [{"run_id": run, "kind": kind, "taxonomy_hash": "T2"} for run, kind in (("r", "reorganize"), ("u", "undo"))]
    labels = {"old_room": "api", "room": "auth", "old_hall": "fact", "hall": "fact", "bank_id": "alice"}
    changes = [
        labels | {"unit_id": "u1", "run_id": "r", "old_taxonomy_hash": "T1"},
        labels | {"unit_id": "u2", "run_id": "r", "old_taxonomy_hash": "T1"},
        labels | {"unit_id": "u3", "run_id": "r", "old_taxonomy_hash": None},
        labels | {"unit_id": "u4", "run_id": "r", "old_taxonomy_hash": "T2"},
        labels | {"unit_id": "u5", "run_id": "u", "old_taxonomy_hash": "T1"},
        labels | {"unit_id": "u6", "run_id": "r", "old_taxonomy_hash": "T1", "room": "api"},
    ]
    sql = "SELECT old_taxonomy, taxonomy, old_room, room, n_units FROM drift_between_taxonomies"
    assert answers(sql, runs=runs, changes=changes) == [("T1", "T2", "api", "auth", 2), (None, "T2", "api", "auth", 1)]


def test_silos(answers):
    """A room of one bank; the fallback room is no topic."""
    units = [unit(1), unit(2, "bob"), unit(3, room="tax"), unit(4, room="tax"), unit(5, room="general")]
    assert answers("FROM silos", units=units) == [("tax", "alice", 2)]


def test_near_duplicates(answers):
    """Units of one key across banks and rooms; a unit without a key, as without texts, is in no cluster."""
    units = [unit(1, text_key=7), unit(2, "bob", text_key=7, room="tax"), unit(3, text_key=8), unit(4), unit(5)]
    assert answers("FROM near_duplicates", units=units) == [(2, 2, 2, "auth", "text 1", ["u001", "u002"])]


def test_stale_closets(answers):
    """Stale and failed closets with the number of sources that differ; fresh ones are not listed."""
    closets = [
        {"closet_id": f"c{n}", "bank_id": "alice", "room": "auth", "title": "t", "status": status, "n_sources": 2}
        for n, status in enumerate(("fresh", "stale", "failed"))
    ]
    sources = [{"closet_id": "c1", "unit_id": f"u{n}", "rank": n, "is_stale": n == 0} for n in range(2)]
    sql = "SELECT status, n_sources, n_stale_sources, closet_id FROM stale_closets"
    assert answers(sql, closets=closets, closet_sources=sources) == [("failed", 2, 0, "c2"), ("stale", 2, 1, "c1")]


def test_tunnel_matrix(answers):
    """A pair of banks counts once, whichever end comes first."""
    tunnels = [
        {"tunnel_id": str(n), "bank_id": a, "target_bank_id": b, "room": "auth", "relationship": kind, "score": score}
        for n, (a, b, kind, score) in enumerate(
            [("alice", "bob", "extends", 0.5), ("bob", "alice", "extends", 1.0), ("bob", "carol", None, None)]
        )
    ]
    sql = "SELECT bank_a, bank_b, relationship, n_tunnels, mean_score FROM tunnel_matrix"
    expected = [("alice", "bob", "extends", 2, 0.75), ("bob", "carol", "unset", 1, None)]
    assert answers(sql, tunnels=tunnels) == expected


def test_misfiled(answers):
    """A unit whose vector lies among another room's is found with that room; the others are where they belong."""
    rooms = ["auth"] * 12 + ["tax"] * 12
    units = [unit(n, room=room) for n, room in enumerate(rooms)]
    vectors = [
        {"unit_id": f"u{n:03d}", "bank_id": "alice", "embedding": [math.cos(n / 50), math.sin(n / 50), 5.0 * (n < 12)]}
        for n in range(24)
    ]
    units[3]["room"] = "tax"
    rows = answers(
        "SELECT unit_id, room, proposed_room, n_of_ten FROM misfiled('alice')", units=units, embeddings=vectors
    )
    assert rows == [("u003", "tax", "auth", 10)]


def test_rooms_over(answers):
    """Rooms above the threshold only, with the share that closets cover."""
    units = [unit(n) for n in range(4)] + [unit(9, room="tax")]
    closets = [{"closet_id": "c", "bank_id": "alice", "room": "auth", "status": "fresh"}]
    sources = [{"closet_id": "c", "unit_id": f"u00{n}", "rank": n, "is_stale": False} for n in range(3)]
    rows = answers("FROM rooms_over(3)", units=units, closets=closets, closet_sources=sources)
    assert rows == [("alice", "auth", 4, 1, 0.75)]


def test_explicit_against_rule(answers):
    """Each field is counted by who decided it; what no run has filed is unfiled."""
    units = [
        unit(1),
        unit(2, room_source="explicit"),
        unit(3, room_source=None),
        unit(4, layer_source="archived", layer=3),
    ]
    rows = answers("SELECT * FROM explicit_against_rule WHERE field <> 'hall'", units=units)
    assert rows == [
        ("room", "auth", 4, 2, 1, 0, 0, 1),
        ("layer", "2", 3, 3, 0, 0, 0, 0),
        ("layer", "3", 1, 0, 0, 1, 0, 0),
    ]


def test_unsupported_languages(answers):
    """Only banks with units that no rules could read, with the shortest of them."""
    units = [unit(1), unit(2, language="other", text="こ", text_chars=1), unit(3, "bob"), unit(4, language="other")]
    assert answers("FROM unsupported_languages", units=units) == [("alice", 3, 2, 0.667, "こ")]


def test_history(answers):
    """One unit's life in order; nothing of others."""
    made, moved = datetime.fromisoformat("2026-01-01"), datetime.fromisoformat("2026-02-01")
    change = {"run_id": "r", "unit_id": "u001", "old_room": "general", "old_hall": "fact", "old_layer": "2"}
    tables = {
        "units": [unit(1, created_at=made), unit(2, created_at=made)],
        "changes": [change | {"room": "auth", "hall": "fact", "layer": "2", "changed_at": moved}],
        "closets": [{"closet_id": "c", "title": "T", "updated_at": moved}],
        "closet_sources": [{"closet_id": "c", "unit_id": "u001", "rank": 0}],
        "tunnels": [
            {"bank_id": "bob", "source_unit_id": "u7", "target_bank_id": "alice", "target_unit_id": "u001"}
            | {"relationship": "extends", "created_at": moved}
        ],
    }
    rows = answers("SELECT what, detail FROM history('u001')", **tables)
    assert rows == [
        ("made", "alice"),
        ("in closet c", "T"),
        ("labelled by run r", "general/fact/2 -> auth/fact/2"),
        ("tunnel to bob", "extends"),
        (f"in snapshot {NEWER}", "auth/fact/2"),
    ]


def test_older_snapshot_lacks_a_column(tmp_path):
    """What an older rcll did not write reads as NULL; its manifest still counts."""
    write_snapshot(tmp_path, OLDER, {"units": [{"unit_id": "u001", "bank_id": "alice", "room": "auth"}]})
    write_snapshot(tmp_path, NEWER, {"units": [unit(1, language="de"), unit(2)]})
    with open_snapshots(str(tmp_path)) as connection:
        rows = connection.execute("SELECT snapshot_id, unit_id, language FROM units_history ORDER BY ALL").fetchall()
        assert rows == [(OLDER, "u001", None), (NEWER, "u001", "de"), (NEWER, "u002", "en")]
        assert connection.execute("SELECT count(*) FROM units").fetchone() == (2,)
        for question in load_questions():
            ask(connection, question.example)[1].fetchall()


def test_several_tenants_are_never_mixed(tmp_path):
    """Two schemas in one folder have to be told apart; each is read alone."""
    for schema in ("acme", "zeta"):
        write_snapshot(tmp_path, NEWER, {"units": [unit(1, bank=schema)]}, schema=schema)
    with pytest.raises(InputError, match=r"schemas acme, zeta; expected one; say --schema"):
        list_snapshots(tmp_path)
    with open_snapshots(str(tmp_path), schema="zeta") as connection:
        assert connection.execute("SELECT DISTINCT bank_id FROM units_history").fetchall() == [("zeta",)]
    with pytest.raises(InputError, match="no snapshot of schema 'nope'; expected one of acme, zeta"):
        list_snapshots(tmp_path, "nope")


HOSTILE = [
    "DROP VIEW units",
    "DELETE FROM snapshots",
    "CREATE TABLE x AS SELECT 1",
    "INSERT INTO snapshots (snapshot_id) VALUES ('x')",
    "COPY (SELECT 1) TO '{folder}/stolen.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/stolen.csv'",
    "EXPORT DATABASE '{folder}/stolen'",
    "ATTACH '{folder}/stolen.db'",
    "SELECT * FROM read_csv('{folder}/secret.csv')",
    "SELECT * FROM read_text('{folder}/secret.csv')",
    "SELECT * FROM read_blob('{folder}/*')",
    "FROM '{folder}/secret.csv'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM sniff_csv('{folder}/secret.csv')",
    "FROM 'https://example.org/x.parquet'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "RESET lock_configuration",
    "PRAGMA enable_external_access",
    "SELECT getenv('HOME')",
    "SELECT * FROM postgres_scan('host=example.org', 'public', 'x')",
    "SELECT 1; DROP VIEW units",
    "CALL pragma_version()",
    "",
    "-- nothing",
    "FROM frame",
]


@pytest.mark.parametrize("sql", HOSTILE)
def test_reader_is_locked_in(tmp_path, sql):
    """No write, no other file, no network, no setting, no variable of the program; the error is one line."""
    write_snapshot(tmp_path / "snapshots", NEWER, {"units": [unit(1)]})
    (tmp_path / "secret.csv").write_text("a\nswordfish\n")
    frame = pl.DataFrame({"a": [1]})
    before = sorted(tmp_path.rglob("*"))
    with open_snapshots(str(tmp_path / "snapshots")) as connection:
        with pytest.raises(InputError) as refused:
            ask(connection, sql.format(folder=tmp_path))
        assert "\n" not in str(refused.value)
        assert "swordfish" not in str(refused.value)
        assert connection.execute("SELECT count(*) FROM units").fetchone() == (1,)
    assert sorted(tmp_path.rglob("*")) == before
    assert frame.height == 1


def test_lock_holds_without_the_statement_check(tmp_path):
    """What the check would let through by mistake, DuckDB itself refuses."""
    write_snapshot(tmp_path / "snapshots", NEWER, {"units": [unit(1)]})
    file = next((tmp_path / "snapshots").rglob("*.parquet"))
    content = file.read_bytes()
    with open_snapshots(str(tmp_path / "snapshots")) as connection:
        for target in (file, tmp_path / "stolen.parquet"):
            with pytest.raises(duckdb.Error):
                connection.execute(f"COPY (SELECT 1) TO '{target}'")
    assert file.read_bytes() == content
    assert not (tmp_path / "stolen.parquet").exists()


def test_rows_are_limited_and_said_to_be_more(tmp_path):
    """A table shows so many rows and tells that there are more."""
    write_snapshot(tmp_path, NEWER, {"units": [unit(n) for n in range(5)]})
    with open_snapshots(str(tmp_path)) as connection:
        assert rows_of(ask(connection, "SELECT 1 FROM units")[1], 4) == ([(1,)] * 4, True)
        assert rows_of(ask(connection, "SELECT 1 FROM units")[1], 5) == ([(1,)] * 5, False)


def test_saved_file_holds_the_views(tmp_path):
    """A DuckDB file of views answers in another process's DuckDB; an existing file is never overwritten."""
    write_snapshot(tmp_path / "it's", NEWER, {"units": [unit(1, room="tax")]})
    file = tmp_path / "analysis.duckdb"
    save_views(list_snapshots(tmp_path / "it's"), file)
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute("FROM silos").fetchall() == [("tax", "alice", 1)]
    with pytest.raises(InputError, match="exists; expected a new file"):
        save_views(list_snapshots(tmp_path / "it's"), file)
    with pytest.raises(InputError, match="cannot be written"):
        save_views(list_snapshots(tmp_path / "it's"), Path("/nowhere/x.duckdb"))


def test_saved_file_is_whole_or_not_there(tmp_path):
    """Where the disk is full nothing is left, and nothing is said to be written."""
    write_snapshot(tmp_path / "out", NEWER, {"units": [unit(1)]})
    folder = tmp_path / "full"
    folder.mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # as a full disk, writes fail part way
    try:
        with pytest.raises(InputError, match="cannot be written"):
            save_views(list_snapshots(tmp_path / "out"), folder / "analysis.duckdb")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert list(folder.iterdir()) == []


@given(st.text())
def test_no_text_cell_is_a_formula(text):
    """Whatever a memory says, a spreadsheet sees text; the text itself stays behind the quote."""
    cell = as_text_cell(text)
    assert cell.removeprefix("'") == text.removeprefix("'") or cell == text
    assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_numbers_stay_numbers():
    """A negative number is no formula."""
    assert [as_text_cell(cell) for cell in (-3, -0.5, None, True)] == [-3, -0.5, None, True]
    assert as_text_cell("=1+1") == "'=1+1"
