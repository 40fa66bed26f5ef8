"""The loader as a guest: HOT updates, short transactions, no session state, and a word on what slows it down."""

import struct
import threading
import time

import pytest
from psycopg.pq import PGconn

from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from rcll.store.load import LoadLimits
from rcll.store.pace import Pace
from rcll.store.vacuum import vacuum_politely
from tests.integration.places import fill
from tests.integration.walks import Walk, migrated

N_UNITS = 3_000


@pytest.fixture
def walk(make_template, clone, tmp_path):
    """A migrated Hindsight-like database whose pages hold about eight units, with an index on their dates."""

    def setup(database):
        fill(database, "hindsight")
        with database.connect() as conn:
            conn.execute("DELETE FROM memory_units")
            conn.execute(
                "INSERT INTO memory_units (bank_id, text, event_date)"
                " SELECT (ARRAY['alice', 'bob'])[mod(n, 2) + 1], n || repeat(' word', 140 + mod(n * 7919, 60)), now()"
                " FROM generate_series(1, %s) n",
                [N_UNITS],
            )
            conn.execute("CREATE INDEX ON memory_units (event_date)")
            conn.execute("VACUUM (FULL, ANALYZE) memory_units")
        migrated(database)

    database = clone(make_template("guest", setup))
    return Walk(database, migrated(database), tmp_path)


def _n_pages(walk):
    return walk.rows("SELECT pg_relation_size('memory_units') / 8192")[0][0]


def test_most_updates_touch_no_index(walk):
    """With about eight tuples a page 80 % or more are HOT, and the table grows by less than a quarter."""
    before = _n_pages(walk)
    assert 7 < N_UNITS / before < 10
    _, loaded = walk.run()
    assert loaded.hot_share >= 0.8
    assert loaded.notes == ()
    assert _n_pages(walk) <= 1.25 * before


def test_small_changes_are_written_in_one_range(walk):
    """A few units all over the table take a few transactions, not one for each range of pages or each page."""
    walk.run()
    walk.do(
        "UPDATE memory_units SET text = text || ' edited' WHERE mod(('x' || left(id::text, 4))::bit(16)::int, 50) = 0"
    )
    changes = walk.plan("api")
    assert 20 < changes.height < 150
    run_id, _ = walk.apply(changes)
    transactions = "SELECT count(DISTINCT changed_at) FROM rcll_changes WHERE run_id = %s"
    assert walk.rows(transactions, run_id)[0][0] <= 20


def test_old_snapshot_is_named_with_the_number(walk):
    """A snapshot that keeps tuples from being pruned is named; the load goes on page by page."""
    with walk.database.connect(autocommit=False, application_name="nightly dump") as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM memory_units")
        time.sleep(5.1)
        _, loaded = walk.run()
        other.rollback()
    assert loaded.n_written == N_UNITS
    (note,) = loaded.notes
    assert loaded.hot_share < 0.3
    assert f"{loaded.hot_share:.0%} of 3,000 updates were HOT" in note
    assert "(nightly dump), open for" in note


def test_forgotten_transactions_and_standbys_are_named(bare_home, tmp_path):
    """A transaction that was prepared and forgotten is named as well, and the slot of a standby that is gone."""
    with EmbeddedServer(bare_home) as server, Database(server.url(), is_embedded=True).connect() as conn:
        conn.execute("ALTER SYSTEM SET max_prepared_transactions = 2")
    with EmbeddedServer(bare_home) as server:
        database = Database(server.url(), is_embedded=True)
        fill(database, "hindsight")
        walk = Walk(database, migrated(database), tmp_path)
        with database.connect() as conn:
            conn.execute("BEGIN; CREATE TABLE forgotten (); PREPARE TRANSACTION 'forgotten by somebody'")
        assert "prepared transaction forgotten by somebody, open for" in walk.run()[1].notes[0]
        walk.do("ROLLBACK PREPARED 'forgotten by somebody'")
        with database.connect() as conn:
            _leave_slot(conn, "lost_standby")
        (note,) = walk.run("api", rules="U")[1].notes
        assert "% of 300 updates were HOT" in note
        assert "in the way: replication slot lost_standby" in note


def _leave_slot(conn, name):
    """Do what a standby with hot_standby_feedback leaves when it goes for good: a slot that holds an old xmin."""
    conn.execute("SELECT pg_create_physical_replication_slot(%s, true)", [name])
    (start,) = conn.execute("SELECT restart_lsn::text FROM pg_replication_slots").fetchone()
    (xid,) = conn.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    standby = PGconn.connect(f"{conn.info.dsn} replication=true".encode())
    standby.exec_(f"START_REPLICATION SLOT {name} PHYSICAL {start}".encode())
    # https://www.postgresql.org/docs/current/protocol-replication.html, "Hot standby feedback message"
    standby.put_copy_data(b"h" + struct.pack("!qIIII", 0, xid, 0, 0, 0))
    standby.flush()
    while conn.execute("SELECT xmin FROM pg_replication_slots").fetchone() == (None,):
        time.sleep(0.02)
    standby.finish()
    conn.execute("DO $$ BEGIN FOR i IN 1..1100 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")


def test_index_on_a_label_is_named(walk):
    """With an index that holds a room no update is HOT; the note says which."""
    walk.do("CREATE INDEX rooms_by_somebody ON memory_units (bank_id) WHERE room = 'auth'")
    _, loaded = walk.run()
    assert (loaded.n_written, loaded.hot_share) == (N_UNITS, 0.0)
    assert "index rooms_by_somebody, which holds a label" in loaded.notes[0]


def test_index_on_a_bank_called_room_is_no_obstacle(walk):
    """What counts is the column, not a word in the definition."""
    walk.do("CREATE INDEX ON memory_units (event_date) WHERE bank_id = 'room'")
    assert walk.run()[1].notes == ()


def test_rate_is_kept(walk):
    """--rate is a ceiling over the whole load, and no transaction is larger than a second's worth."""
    changes = walk.plan().head(300)
    start = time.monotonic()
    _, loaded = walk.apply(changes, limits=LoadLimits(rows_per_second=200))
    assert loaded.n_written == 300
    assert time.monotonic() - start >= 1.2


def test_vacuum_between_ranges_lets_the_table_grow_less(walk):
    """Asked for, it gives the space of moved tuples to the next ranges."""
    before = _n_pages(walk)
    _, loaded = walk.apply(walk.plan(), limits=LoadLimits(vacuum=True))
    assert loaded.n_written == N_UNITS
    assert _n_pages(walk) <= 1.25 * before
    assert walk.rows("SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'memory_units'")[0][0] >= 1


def test_vacuum_gives_way_to_anybody_who_waits(walk):
    """A VACUUM that somebody waits for is cancelled, however long it would have taken."""
    walk.do("UPDATE memory_units SET room = room")
    walk.do("ALTER SYSTEM SET vacuum_cost_delay = '100ms'")
    walk.do("ALTER SYSTEM SET vacuum_cost_limit = 1")
    walk.do("SELECT pg_reload_conf()")
    waited = []

    def create_index():
        time.sleep(0.5)
        start = time.monotonic()
        walk.do("CREATE INDEX ON memory_units (fact_type)")
        waited.append(time.monotonic() - start)

    try:
        somebody = threading.Thread(target=create_index)
        somebody.start()
        assert not vacuum_politely(walk.database, walk.tenant)
        somebody.join()
    finally:
        walk.do("ALTER SYSTEM RESET vacuum_cost_delay")
        walk.do("ALTER SYSTEM RESET vacuum_cost_limit")
        walk.do("SELECT pg_reload_conf()")
    assert waited[0] < 5


def test_vacuum_of_a_locked_table_is_left_out(walk):
    """It does not even wait for its own lock."""
    with walk.database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE memory_units IN SHARE UPDATE EXCLUSIVE MODE")
        start = time.monotonic()
        vacuum_politely(walk.database, walk.tenant)
        assert time.monotonic() - start < 5


@pytest.mark.parametrize("setting", ["statement_timeout = '40ms'", "lock_timeout = '1ms'"])
def test_timeouts_of_the_role_make_smaller_transactions(walk, setting):
    """A server that cuts statements short gets smaller ones, and everything is written."""
    name = walk.rows("SELECT current_database()")[0][0]
    changes = walk.plan()
    walk.do(f'ALTER DATABASE "{name}" SET {setting}')
    _, loaded = walk.apply(changes)
    assert (loaded.n_written, loaded.skipped) == (N_UNITS, {})


def test_no_session_state_is_left(walk):
    """What a transaction-pooling PgBouncer would hand to the next client is as it was: settings, locks, statements."""
    database = _OneConnection(walk.database.url, is_embedded=False)
    settings = "SELECT name, setting FROM pg_settings WHERE source = 'session' ORDER BY 1"
    before = database.connect().execute(settings).fetchall()
    shared = Walk(database, walk.tenant, walk.folder / "shared")
    shared.apply(walk.plan().head(500), limits=LoadLimits(batch_rows=100))
    conn = database.connect()
    assert conn.execute(settings).fetchall() == before
    assert conn.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    assert conn.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
    assert conn.execute("SELECT count(*) FROM pg_class WHERE relpersistence = 't'").fetchone() == (0,)
    database.close()


def test_pace_aims_at_the_target_and_keeps_its_ceilings():
    """Rows per transaction follow the time measured, at most doubling, within what the operator allows."""
    pace = Pace(LoadLimits(batch_rows=300))
    first = pace.rows(leaves_page=True)
    pace.learn(first, 0.001, leaves_page=True)
    assert pace.rows(leaves_page=True) == 2 * first
    pace.learn(2 * first, 10.0, leaves_page=True)
    assert pace.rows(leaves_page=True) == 20
    pace.learn(5, 10.0, leaves_page=False)
    assert pace.rows(leaves_page=False) == 300
    pace.shrink(leaves_page=True)
    assert pace.rows(leaves_page=True) == 10
    assert Pace(LoadLimits(rows_per_second=50)).rows(leaves_page=False) == 50
    assert Pace(LoadLimits(rows_per_second=50)).pause(25, 0.1) == pytest.approx(0.4)


class _OneConnection(Database):
    """Gives everybody the same connection, as a pooler may; it stays open."""

    def connect(self, **kwargs):  # noqa: ARG002 - a pooler does not care
        if not hasattr(self, "_conn"):
            object.__setattr__(self, "_conn", super().connect())
        return _Kept(self._conn)

    def close(self):
        self._conn.close()


class _Kept:
    def __init__(self, conn):
        self._conn = conn

    def __getattr__(self, name):
        return getattr(self._conn, name)

    def __enter__(self):
        return self._conn

    def __exit__(self, *_):
        return None
