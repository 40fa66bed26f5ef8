"""Backfill on real PostgreSQL: range by range, stopped, killed and continued, the same end as a reorganize."""

import logging

import pytest

from rcll.errors import DatabaseError, InputError
from rcll.store.checks import run_checks
from rcll.store.connect import Database
from tests.integration.places import N_UNITS, fill, unit_id


def _fill(database: Database) -> None:
    fill(database, "hindsight")
    with database.connect() as conn:
        conn.execute("UPDATE memory_units SET text = 'The disk of server alder was full, case ' || right(id::text, 3)")
        conn.execute("VACUUM (FULL) memory_units")


@pytest.fixture
def bank(make_template, clone, monkeypatch, tmp_path):
    """A Hindsight-like database of a few dozen pages, not migrated; settings point at it."""
    database = clone(make_template("backfill", _fill))
    monkeypatch.setenv("RCLL_DATABASE_URL", database.url)
    monkeypatch.setenv("RCLL_HOME", str(tmp_path))
    return database


def _rows(database, statement, *values):
    with database.connect() as conn:
        return conn.execute(statement, values or None).fetchall()


def _backfill(**parameters):
    from flows.backfill import backfill

    (summary,) = backfill(**parameters)
    return summary


def test_backfill_files_every_unit_and_the_next_writes_nothing(bank, tmp_path):
    """Every range is written, each unit once; a second backfill and a reorganize find nothing to write."""
    from flows.reorganize import reorganize
    from rcll.store.catalog import read_tenants

    first = _backfill(pages=7)
    assert first["status"] == "done"
    assert first["estimate"]["n_unfiled"] == first["labels"]["n_units"] == N_UNITS
    assert first["loaded"]["n_written"] == N_UNITS
    assert first["labels"]["after"]["room"] == {"infrastructure": N_UNITS}
    assert _rows(bank, "SELECT count(*), count(DISTINCT unit_id) FROM rcll_changes") == [(N_UNITS, N_UNITS)]
    second = _backfill(pages=7)
    assert (second["loaded"]["n_written"], second["loaded"]["n_recorded"]) == (0, 0)
    assert second["estimate"]["n_unfiled"] == 0
    (walk,) = reorganize(only="labels")
    assert (walk["loaded"]["n_written"], walk["loaded"]["n_recorded"]) == (0, 0)
    assert list(tmp_path.glob("storage/runs/*")) == []
    with bank.connect() as conn:
        (tenant,) = read_tenants(conn)
        assert run_checks(conn, tenant) == {}


def test_dry_run_estimates_and_writes_nothing(bank):
    """The estimate of an unmigrated bank counts its units and pages; no table is made."""
    summary = _backfill(dry_run=True, rate=100)
    assert summary["status"] == "estimated"
    assert summary["estimate"]["n_unfiled"] == N_UNITS
    assert summary["estimate"]["seconds"] == N_UNITS / 100
    assert _rows(bank, "SELECT count(*) FROM pg_class WHERE relname = 'rcll_runs'") == [(0,)]


def test_explicit_labels_and_banks_are_kept_apart(bank):
    """A label that somebody set stays; banks that were not named are not touched."""
    from rcll.store.catalog import read_tenants
    from rcll.store.migrate import migrate

    with bank.connect() as conn:
        (tenant,) = read_tenants(conn)
        migrate(bank, tenant)
        conn.execute("UPDATE memory_units SET room = 'tax' WHERE id = %s", [unit_id(4)])
    summary = _backfill(banks=["alice"], pages=9)
    assert summary["labels"]["n_explicit"] == 1
    assert _rows(bank, "SELECT room FROM memory_units WHERE id = %s", unit_id(4)) == [("tax",)]
    assert _rows(bank, "SELECT DISTINCT bank_id FROM rcll_labels") == [("alice",)]


def test_stopped_run_ends_partial_and_the_next_goes_on(bank):
    """A stop that somebody asks for ends the run before its next transaction; the next run writes only the rest."""
    trigger = (
        "CREATE FUNCTION stop_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE rcll_runs SET parameters = parameters || '{\"control\": \"stop\"}' WHERE status = 'running';"
        " RETURN NULL; END $$"
    )
    _backfill(banks=["alice"], pages=7)
    with bank.connect() as conn:
        conn.execute("DELETE FROM rcll_labels")
        conn.execute("UPDATE memory_units SET room = 'general'")
        conn.execute("TRUNCATE rcll_changes")
        conn.execute(trigger)
        conn.execute("CREATE TRIGGER stop AFTER INSERT ON rcll_changes EXECUTE FUNCTION stop_run()")
    from flows.backfill import backfill

    state = backfill(pages=7, rate=20, return_state=True)
    assert (state.type.value, state.name) == ("COMPLETED", "Partial")
    assert "schema public: the run was asked to stop" in state.message
    (stopped,) = state.result()
    assert stopped["status"] == "partial"
    assert "asked to stop" in stopped["stopped"]
    n_written = stopped["loaded"]["n_written"]
    with bank.connect() as conn:
        conn.execute("DROP TRIGGER stop ON rcll_changes")
        (n_filed,) = conn.execute("SELECT count(*) FROM rcll_labels").fetchone()
    assert n_written <= n_filed < N_UNITS
    rest = _backfill(pages=7)
    assert rest["loaded"]["n_written"] == N_UNITS - n_filed
    assert _rows(bank, "SELECT status FROM rcll_runs ORDER BY started_at DESC LIMIT 2") == [("done",), ("partial",)]
    assert _rows(bank, "SELECT count(*), count(DISTINCT unit_id) FROM rcll_changes") == [(N_UNITS, N_UNITS)]


def test_pause_window_of_nonsense_is_refused(bank):
    """A wrong window is refused before anything is written."""
    with pytest.raises(Exception, match="pause window 'tonight' cannot be read"):
        _backfill(pauses=["tonight"])
    assert _rows(bank, "SELECT count(*) FROM pg_class WHERE relname = 'rcll_runs'") == [(0,)]


@pytest.fixture
def records():
    """Every record of a logger below rcll, progress included."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in ("rcll", "rcll.progress")]
    for logger in loggers:
        logger.addHandler(handler)
    yield found
    for logger in loggers:
        logger.removeHandler(handler)


def test_every_record_says_run_and_stage(bank, records):
    """Whatever thread or task a record comes from, it bears the run and the stage of its work."""
    summary = _backfill(pages=7)
    found = {(record.run, record.stage) for record in records}
    assert {run for run, _ in found} == {summary["run_id"]}
    assert {"load", "backfill"} <= {stage for _, stage in found}
    assert all(hasattr(record, "bank") for record in records)


def test_role_with_the_least_rights_can_do_it(role, bank, monkeypatch):
    """Rights on three columns and on rcll's tables are enough where migrations are done; else they are named."""
    from rcll.store.catalog import read_tenants
    from rcll.store.grants import grants
    from rcll.store.migrate import migrate

    monkeypatch.setenv("RCLL_DATABASE_URL", f"{bank.url}&user={role}" if "?" in bank.url else f"{bank.url}?user={role}")
    with bank.connect() as conn:
        conn.execute(f"GRANT USAGE ON SCHEMA public TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        with pytest.raises(DatabaseError, match=f"role '{role}' lacks membership in "):
            _backfill()
        (tenant,) = read_tenants(conn)
        migrate(bank, tenant)
        conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        with pytest.raises(DatabaseError, match=r"UPDATE \(room\) on memory_units; .*INSERT on rcll_labels"):
            _backfill()
        assert conn.execute("SELECT count(*) FROM rcll_runs").fetchone() == (0,)
        (tenant,) = read_tenants(conn)
        conn.execute(grants(conn, tenant, role))
    assert _backfill()["loaded"]["n_written"] == N_UNITS


def test_storage_that_cannot_be_written_is_said_first(bank, monkeypatch):
    """The setting is named, and nothing is in the database."""
    monkeypatch.setenv("RCLL_STORAGE", "/proc/nowhere")
    with pytest.raises(InputError, match=r"RCLL_STORAGE '/proc/nowhere' cannot be written: .* nothing was written"):
        _backfill()
    assert _rows(bank, "SELECT count(*) FROM pg_class WHERE relname = 'rcll_runs'") == [(0,)]


@pytest.mark.parametrize("wrong", [{"rate": -1}, {"pages": 0}, {"rate": "fast"}])
def test_parameter_out_of_range_is_refused(bank, wrong):
    """The parameter is named, and nothing is in the database."""
    (name,) = wrong
    with pytest.raises(Exception, match=name):
        _backfill(**wrong)
    assert _rows(bank, "SELECT count(*) FROM pg_class WHERE relname = 'rcll_runs'") == [(0,)]


def test_unknown_bank_is_refused(bank):
    """A bank that does not exist is named, and nothing is written."""
    with pytest.raises(InputError, match="bank 'carol' does not exist"):
        _backfill(banks=["carol"])
