"""Snapshots of real databases: what they hold, what a reader sees of a torn one, what stays after a fault."""

import json
import os
import re
import threading

import polars as pl
import pytest

from rcll.analyst.layout import SEVERAL, bank_folder, list_snapshots, table_files
from rcll.analyst.snapshot import SnapshotOptions, prune_snapshots, take_snapshot
from rcll.errors import InputError, RcllError, Transient
from rcll.store.ledger import set_explicit
from rcll.tables import TABLES
from tests.integration.places import N_UNITS, unit_id
from tests.integration.walks import migrated

LONG_BANK = "ü" * 300
STRANGE_BANKS = ("a/b=c", "../../etc", "~several", "Bank", "bank", ".", 'quo"te', "'; DROP TABLE banks; --", LONG_BANK)


def _take(walk, folder, **options):
    where, manifest = take_snapshot(walk.database, walk.tenant, str(folder), SnapshotOptions(**options))
    return where, manifest


def _read(folder, table):
    files = table_files(list_snapshots(folder), table)
    return pl.concat(
        [pl.DataFrame(schema=TABLES[table]), *(pl.read_parquet(f, hive_partitioning=False) for f in files)]
    )


def test_snapshot_holds_what_the_database_holds(walk, tmp_path):
    """Labels, their sources, changes, runs and vectors are those of the tables; the manifest counts them."""
    run_id, _ = walk.run()
    with walk.database.connect() as conn:
        set_explicit(conn, walk.tenant, [unit_id(3)], room="tax")
    walk.do("UPDATE memory_units SET text = 'edited' WHERE id = %s", unit_id(5))
    where, manifest = _take(walk, tmp_path / "out")
    units = _read(tmp_path / "out", "units").sort("unit_id")
    assert units.schema == TABLES["units"]
    assert dict(units.select("unit_id", "room").iter_rows()) == {key: label[0] for key, label in walk.labels().items()}
    by_id = {row["unit_id"]: row for row in units.iter_rows(named=True)}
    assert by_id[unit_id(3)]["room_source"] == "explicit"
    assert by_id[unit_id(4)]["room_rule"] == "auth-rule"
    assert [key for key, row in by_id.items() if row["is_stale"]] == [unit_id(5)]
    assert by_id[unit_id(7)]["text"] == "text 7"
    assert by_id[unit_id(7)]["created_at"].year >= 2024
    stored = walk.rows("SELECT id::text, embedding::real[] FROM memory_units ORDER BY id")
    vectors = _read(tmp_path / "out", "embeddings").sort("unit_id")
    assert vectors.height == N_UNITS
    assert vectors["embedding"][17].to_list() == pytest.approx(stored[17][1], abs=1e-6)
    changes = _read(tmp_path / "out", "changes")
    assert set(changes["run_id"]) == {run_id}
    assert set(changes["old_room"]) == {"general"}
    (run,) = _read(tmp_path / "out", "runs").iter_rows(named=True)
    assert (run["run_id"], json.loads(run["summary"])["loaded"]["n_written"]) == (run_id, N_UNITS)
    assert manifest.tables["units"]["n_rows"] == N_UNITS
    assert [(bank.bank_id, bank.n_units) for bank in manifest.banks] == [
        ("alice", 150),
        ("bob", 150),
        ("harbour", 0),
        ("orchard", 0),
    ]
    assert all(0 < bank.seconds_held < 60 for bank in manifest.banks)
    assert re.search(r"/schema=public/snapshot=\d{8}T\d{9}Z$", where)
    assert list((tmp_path / "out" / "schema=public").glob(".*")) == []


def test_no_text_means_no_text_in_any_file(walk, tmp_path):
    """--no-text leaves texts, titles and summaries out; lengths and hashes stay."""
    secret = "the password of the vault is swordfish"
    walk.do("UPDATE memory_units SET text = %s WHERE id = %s", secret, unit_id(0))
    walk.do(
        "INSERT INTO closets (id, bank_id, room, hall, summary, title, n_sources)"
        " VALUES (gen_random_uuid(), 'alice', 'auth', 'fact', %s, %s, 3)",
        secret,
        secret,
    )
    _take(walk, tmp_path / "out", texts=False, embeddings=False)
    units, closets = _read(tmp_path / "out", "units"), _read(tmp_path / "out", "closets")
    assert units["text"].null_count() == units["text_key"].null_count() == N_UNITS
    assert units["text_chars"].max() == len(secret)
    assert closets.select("title", "summary").row(0) == (None, None)
    for file in (tmp_path / "out").rglob("*.parquet"):
        assert "swordfish" not in str(pl.read_parquet(file, hive_partitioning=False).to_dicts())


def test_texts_come_back_byte_for_byte(walk, tmp_path):
    """Quotes, line ends, commas, the end marker of COPY and blank texts pass through CSV unharmed; NULLs stay NULL."""
    texts = [
        '"',
        "a,b",
        "line\nline\r\nend\r",
        "\\.",
        "",
        " ",
        "\t",
        "NULL",
        "\\N",
        "é\u2028🎉",
        '""',
        "=cmd|'/c calc'!A1",
    ]
    for number, text in enumerate(texts):
        walk.do("UPDATE memory_units SET text = %s WHERE id = %s", text, unit_id(number))
    walk.do("UPDATE memory_units SET room = NULL, created_at = 'infinity' WHERE id = %s", unit_id(20))
    _take(walk, tmp_path / "out", embeddings=False)
    rows = {row["unit_id"]: row for row in _read(tmp_path / "out", "units").iter_rows(named=True)}
    assert [rows[unit_id(number)]["text"] for number in range(len(texts))] == texts
    assert (rows[unit_id(20)]["room"], rows[unit_id(20)]["created_at"]) == (None, None)
    assert rows[unit_id(0)]["text_key"] is None


def test_strange_banks_keep_to_their_folders(walk, tmp_path, monkeypatch):
    """Any bank name makes a folder inside the snapshot, and comes back whole from the column."""
    monkeypatch.setattr("rcll.analyst.snapshot.OWN_FILES_UNITS", 1)
    for bank in STRANGE_BANKS:
        walk.do("INSERT INTO banks (bank_id) VALUES (%s)", bank)
        walk.do("INSERT INTO memory_units (bank_id, text) VALUES (%s, 'x')", bank)
    walk.do("INSERT INTO banks (bank_id) VALUES ('empty')")
    before = set(tmp_path.rglob("*"))
    _take(walk, tmp_path / "out", embeddings=False)
    assert all(tmp_path / "out" in (path, *path.parents) for path in set(tmp_path.rglob("*")) - before)
    counts = dict(_read(tmp_path / "out", "units")["bank_id"].value_counts().iter_rows())
    assert counts == dict.fromkeys(STRANGE_BANKS, 1) | {"alice": 150, "bob": 150}
    (snapshot,) = list_snapshots(tmp_path / "out")
    assert {bank.bank_id: bank.n_units for bank in snapshot.manifest.banks}["empty"] == 0
    folders = {bank_folder(bank) for bank in STRANGE_BANKS}
    assert len(folders) == len(STRANGE_BANKS)
    assert all(len(folder.encode()) < 200 and "/" not in folder and SEVERAL not in folder for folder in folders)


def test_many_small_banks_share_files(walk, tmp_path):
    """Hundreds of banks of one unit make a handful of files."""
    walk.do("INSERT INTO banks (bank_id) SELECT 'small-' || n FROM generate_series(1, 500) n")
    walk.do("INSERT INTO memory_units (bank_id, text) SELECT 'small-' || n, 't' FROM generate_series(1, 500) n")
    _, manifest = _take(walk, tmp_path / "out")
    assert len(manifest.banks) == 504  # two more stand in the tenant's table without a unit
    assert len(list((tmp_path / "out").rglob("*.parquet"))) < 10


def test_state_is_consistent_while_others_write(walk, tmp_path):
    """Units deleted and added while a bank is read do not tear it: the vectors are those of the units."""
    is_over = threading.Event()

    def churn():
        with walk.database.connect() as conn:
            while not is_over.is_set():
                conn.execute(
                    "DELETE FROM memory_units WHERE id IN (SELECT id FROM memory_units ORDER BY random() LIMIT 3)"
                )
                conn.execute(
                    "INSERT INTO memory_units (bank_id, text, embedding)"
                    " SELECT 'alice', 'new', embedding FROM memory_units LIMIT 3"
                )

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(3):
            _take(walk, tmp_path / "out")
    finally:
        is_over.set()
        thread.join()
    for snapshot in list_snapshots(tmp_path / "out"):
        units, vectors = _read(snapshot.path, "units"), _read(snapshot.path, "embeddings")
        assert set(vectors["unit_id"]) == set(units["unit_id"])
        assert snapshot.manifest.tables["units"]["n_rows"] == sum(bank.n_units for bank in snapshot.manifest.banks)


def test_unmigrated_database_is_read_as_it_is(database_of, tenant_of, tmp_path):
    """A bank that rcll has never touched gives units with default labels, and is not changed."""
    database = database_of("hindsight")
    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' ORDER BY 1"
    with database.connect() as conn:
        before = conn.execute(tables).fetchall()
        _, manifest = take_snapshot(database, tenant_of(database), str(tmp_path / "out"))
        assert conn.execute(tables).fetchall() == before
    assert not manifest.migrated
    units = _read(tmp_path / "out", "units")
    assert set(units.select("room", "hall", "layer", "room_source").iter_rows()) == {("general", "fact", 2, None)}
    assert units.height == 3


@pytest.mark.parametrize("kind", ["fork", "specification"])
def test_other_kinds_of_database(database_of, tmp_path, kind):
    """A fork's layers arrive as numbers, uuid banks as text."""
    database = database_of(kind)
    _, manifest = take_snapshot(database, migrated(database), str(tmp_path / "out"))
    units = _read(tmp_path / "out", "units")
    assert units.height == manifest.tables["units"]["n_rows"] > 0
    assert units["layer"].drop_nulls().is_in([0, 1, 2, 3]).all()


def test_empty_database(walk, tmp_path):
    """Banks without units make a snapshot that says so."""
    walk.do("DELETE FROM memory_units")
    _, manifest = _take(walk, tmp_path / "out")
    assert manifest.tables["units"]["n_rows"] == 0
    assert _read(tmp_path / "out", "units").is_empty()


def test_unit_without_vector_is_left_out_of_the_vectors_only(walk, tmp_path):
    """A missing embedding is no row of zeros."""
    walk.do("UPDATE memory_units SET embedding = NULL WHERE id = %s", unit_id(0))
    _take(walk, tmp_path / "out")
    assert _read(tmp_path / "out", "embeddings").height == N_UNITS - 1
    assert _read(tmp_path / "out", "units").height == N_UNITS


def test_folder_that_cannot_be_used(walk, tmp_path):
    """A file in the way, or a folder without room, is one line, and no half snapshot stays."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/out cannot be used: .*expected a folder or store that can be written"):
        _take(walk, tmp_path / "file" / "out")
    with pytest.raises(InputError, match=r"nosuch://x cannot be used"):
        take_snapshot(walk.database, walk.tenant, "nosuch://x")


def test_no_room_leaves_nothing_behind(walk, tmp_path, monkeypatch):
    """A disk that fills up while the parts are written ends in one line and an empty folder."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, hard))  # as a full disk, writes fail part way
    try:
        with pytest.raises(Transient, match="expected room and the right to write"):
            _take(walk, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert list((tmp_path / "out").rglob("*")) == []


def test_half_written_snapshot_is_not_seen(walk, tmp_path):
    """Without a manifest there is no snapshot; a file that is missing beside one is named."""
    where, _ = _take(walk, tmp_path / "out")
    (tmp_path / "out" / "schema=public" / "snapshot=2020" / "units").mkdir(parents=True)
    (found,) = list_snapshots(tmp_path / "out")
    assert str(found.path) == where
    next(found.path.rglob("units/**/*.parquet")).unlink()
    with pytest.raises(InputError, match=r"has 0 files of units; expected 1, as its manifest says"):
        table_files([found], "units")
    (found.path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(InputError, match=r"format 99; expected 1"):
        list_snapshots(tmp_path / "out")
    (found.path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        list_snapshots(tmp_path / "out")
    with pytest.raises(InputError, match="holds no whole snapshot"):
        list_snapshots(tmp_path / "elsewhere")


def test_prune_keeps_the_newest(walk, tmp_path):
    """The oldest go beyond the number, pieces of killed writers go, those of living ones stay."""
    for _ in range(3):
        newest, _ = _take(walk, tmp_path / "out", embeddings=False)
    home = tmp_path / "out" / "schema=public"
    names = {
        "dead": f".unfinished-{os.uname().nodename}-999999999-1",
        "living": f".unfinished-{os.uname().nodename}-1-1",
    }
    for name in names.values():
        (home / name).mkdir()
    gone = prune_snapshots(str(tmp_path / "out"), keep=1)
    assert len(gone) == 3
    assert {path.name for path in home.iterdir()} == {names["living"], newest.rpartition("/")[2]}
    with pytest.raises(RcllError, match="is no local folder"):
        prune_snapshots("memory://x", keep=1)


def test_store_of_fsspec(walk):
    """A store without rename holds the same files, its manifest last."""
    import fsspec

    from rcll.analyst.stores import local_copy

    fs = fsspec.filesystem("memory")
    url, manifest = take_snapshot(walk.database, walk.tenant, "memory://palace/snapshots")
    try:
        assert fs.exists(f"{url}/manifest.json")
        with local_copy("memory://palace/snapshots") as folder:
            assert list_snapshots(folder)[0].manifest == manifest
            assert _read(folder, "units").height == N_UNITS
    finally:
        fs.rm("memory://palace", recursive=True)
