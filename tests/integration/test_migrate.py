"""Migration forth and back on every kind of database, alone, beside others, and interrupted."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from rcll.errors import Busy, DatabaseError, MigrationError, Transient
from rcll.store.catalog import read_tenants
from rcll.store.migrate import (
    _objects,
    create_base,
    migrate,
    pending,
    rollback,
    rollback_preview,
    shipped,
)

KINDS = ["hindsight", "specification", "fork"]
ALL = ["0001_labels", "0002_ledger", "0003_closets", "0004_tunnels", "0005_service", "0006_archived", "0007_retention"]
FIRST, SECOND, THIRD = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))


@pytest.fixture
def migrated(database_of, tenant_of):
    """Return ``migrated(kind)``: a Database of that kind after rcll's migrations."""

    def make(kind):
        database = database_of(kind)
        migrate(database, tenant_of(database))
        return database

    return make


def names(migrations):
    """Names of migrations, in their order."""
    return [migration.name for migration in migrations]


def columns(conn, schema="public"):
    """Everything that the catalog says of the schema's columns, keys, indexes and owners, sorted."""
    return conn.execute(
        """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'i')
        UNION ALL
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), NULL, convalidated
        FROM pg_constraint WHERE connamespace = to_regnamespace(%(schema)s) AND contype <> 'n'
        ORDER BY 1, 2, 3
        """,
        {"schema": schema},
    ).fetchall()


def rows(conn, table):
    """All rows of a table with the place and the transaction that each was written at."""
    return conn.execute(f"SELECT ctid, xmin, t.* FROM {table} t ORDER BY ctid").fetchall()


@pytest.mark.parametrize("kind", KINDS)
def test_all_is_applied_and_recorded(database_of, tenant_of, kind):
    """Expect every shipped migration once, in order, with its checksum and the version of rcll."""
    database = database_of(kind)
    with database.connect() as conn:
        assert names(pending(conn, tenant_of(database))) == ALL
        assert names(migrate(database, tenant_of(database))) == ALL
        assert pending(conn, tenant_of(database)) == []
        recorded = conn.execute("SELECT name, checksum FROM rcll_migrations ORDER BY name").fetchall()
    assert recorded == [(migration.name, migration.checksum) for migration in shipped()]
    assert tenant_of(database).migrated


@pytest.mark.parametrize("kind", ["hindsight", "specification"])
def test_existing_units_read_defaults_without_a_rewrite(database_of, tenant_of, kind):
    """Expect general, fact, 2 on old units, in the table file that was there, with no row written anew."""
    database = database_of(kind)
    look = "SELECT relfilenode FROM pg_class WHERE relname = 'memory_units'"
    with database.connect() as conn:
        file, before = conn.execute(look).fetchone(), rows(conn, "memory_units")
        migrate(database, tenant_of(database))
        assert conn.execute(look).fetchone() == file
        assert rows(conn, "memory_units") == [(*row, "general", "fact", 2) for row in before]


def test_archive_goes_along(migrated):
    """Expect Hindsight's way of invalidating and reverting, by the live column list, to keep a label."""
    copy = "INSERT INTO {} ({columns}) SELECT {columns} FROM {} WHERE id = %s"
    with migrated("hindsight").connect() as conn:
        conn.execute("UPDATE memory_units SET room = 'infrastructure', layer = 1 WHERE id = %s", (FIRST,))
        listed = conn.execute(
            "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute WHERE attrelid = 'memory_units'::regclass"
            " AND attnum > 0 AND NOT attisdropped AND attname <> 'embedding'"
        ).fetchone()[0]
        conn.execute(copy.format("invalidated_memory_units", "memory_units", columns=listed), (FIRST,))
        conn.execute("DELETE FROM memory_units WHERE id = %s", (FIRST,))
        conn.execute(copy.format("memory_units", "invalidated_memory_units", columns=listed), (FIRST,))
        label = conn.execute("SELECT room, hall, layer FROM memory_units WHERE id = %s", (FIRST,)).fetchone()
        archived = conn.execute("SELECT room, hall, layer FROM invalidated_memory_units").fetchall()
    assert label == ("infrastructure", "fact", 1)
    assert ("general", "fact", 2) in archived


def test_fork_keeps_its_columns_and_tables(database_of, tenant_of):
    """Expect a fork's labels, tunnels and closets as they were, and its archive made to match its units."""
    database = database_of("fork")
    tables = ("memory_units", "tunnels", "closets")
    with database.connect() as conn:
        before = {table: rows(conn, table) for table in tables}
        was = [column for column in columns(conn) if column[0] in tables]
        migrate(database, tenant_of(database))
        assert {table: rows(conn, table) for table in tables} == before
        assert [column for column in columns(conn) if column[0] in tables] == was
        added = conn.execute("SELECT added->'columns' FROM rcll_migrations WHERE name = '0001_labels'").fetchone()
        assert added == ([["invalidated_memory_units", "layer"]],)
        assert ("invalidated_memory_units", "layer", "text", None, False) in columns(conn)


@pytest.mark.parametrize(
    ("kind", "bank_type", "vector"),
    [
        ("hindsight", "text", "public.vector(384)"),
        ("specification", "uuid", "public.vector(1536)"),
        ("fork", "text", "public.vector(384)"),
    ],
)
def test_columns_are_the_promised_ones(migrated, tenant_of, kind, bank_type, vector):
    """Expect the specification's columns of tunnels and closets, then rcll's own, in the bank's own types."""
    database = migrated(kind)
    tenant = tenant_of(database)
    with database.connect() as conn:
        conn.execute("SET search_path = pg_catalog")
        found = {}
        for table, column, column_type, *_ in columns(conn):
            found.setdefault(table, {})[column] = column_type
    tunnels, closets = found[tenant.tunnels], found[tenant.closets]
    assert tunnels["source_bank_id"] == tunnels["target_bank_id"] == closets["bank_id"] == bank_type
    assert closets["embedding"] == vector
    assert {
        "id", "source_unit_id", "target_unit_id", "source_bank_id", "target_bank_id", "relationship", "created_at",
        "score", "method", "run_id", "evidence",
    } <= tunnels.keys()  # fmt: skip
    assert {
        "id", "bank_id", "room", "hall", "summary", "embedding", "source_unit_ids", "created_at",
        "title", "model", "source_hash", "status", "run_id", "updated_at", "n_read", "n_sources",
        "embedding_model", "is_extractive",
    } <= closets.keys()  # fmt: skip
    assert {"unit_id", "bank_id", "room_source", "layer_rule", "text_hash", "is_held"} <= found["rcll_labels"].keys()


def test_every_tenant_gets_its_own(database_of):
    """Expect both tenants migrated, with names that need quoting and types outside search_path."""
    database = database_of("tenants")
    with database.connect() as conn:
        for tenant in read_tenants(conn):
            assert names(migrate(database, tenant)) == ALL
        assert [tenant.migrated for tenant in read_tenants(conn)] == [True, True]
        types = conn.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE c.relname = 'closets' AND attname = 'embedding' ORDER BY 1"
        ).fetchall()
    assert types == [('"types of pgvector".halfvec(512)',), ('"types of pgvector".vector(1536)',)]


def test_second_time_writes_nothing(migrated, tenant_of):
    """Expect a second migration, and the question what is pending, to work where nothing can be written."""
    database = migrated("hindsight")
    with database.connect() as conn:
        conn.execute(f"ALTER DATABASE {conn.info.dbname} SET default_transaction_read_only = on")
    assert migrate(database, tenant_of(database)) == []


def test_pending_changes_nothing(database_of, tenant_of):
    """Expect the pending migrations of an untouched database from a connection that cannot write."""
    database = database_of("hindsight")
    tenant = tenant_of(database)
    with database.connect(options="-c default_transaction_read_only=on") as conn:
        assert names(pending(conn, tenant)) == ALL
        assert rollback_preview(conn, tenant).tables == {}


# -- what the objects do ---------------------------------------------------------------------------------------


@pytest.fixture
def linked(migrated):
    """A migrated Hindsight database with a tunnel between two banks, a closet, ledger and explicit rows."""
    database = migrated("hindsight")
    with database.connect() as conn:
        conn.execute(
            "INSERT INTO tunnels (id, source_unit_id, target_unit_id, source_bank_id, target_bank_id, relationship)"
            " VALUES (gen_random_uuid(), %s, %s, 'orchard', 'harbour', 'same_concept')",
            (FIRST, THIRD),
        )
        conn.execute(
            "INSERT INTO closets (id, bank_id, summary, source_hash) VALUES (%s, 'orchard', 'The press.', 'h')",
            (SECOND,),
        )
        conn.execute("INSERT INTO closet_sources VALUES (%s, %s, 'h', 0)", (SECOND, FIRST))
        conn.execute(
            "INSERT INTO rcll_labels (unit_id, bank_id, room, room_source)"
            " SELECT id, bank_id, room, 'rule' FROM memory_units"
        )
        conn.execute("UPDATE rcll_labels SET room_source = 'explicit' WHERE unit_id = %s", (THIRD,))
        conn.execute("UPDATE memory_units SET room = 'monitoring', layer = NULL WHERE id = %s", (THIRD,))
        conn.execute("INSERT INTO rcll_explicit VALUES (gen_random_uuid(), 'tunnel', '{}')")
    return database


def counts(conn):
    """Rows of tunnels, closets, their sources, ledger and explicit wishes."""
    tables = ("tunnels", "closets", "closet_sources", "rcll_labels", "rcll_explicit")
    return [conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]


@pytest.mark.parametrize(
    ("deed", "left"),
    [
        ("DELETE FROM documents", [0, 1, 1, 3, 1]),
        (f"DELETE FROM memory_units WHERE id = '{THIRD}'", [0, 1, 1, 3, 1]),
        ("DELETE FROM banks WHERE bank_id = 'orchard'", [1, 0, 0, 3, 1]),
        ("TRUNCATE banks, documents, memory_units, memory_links CASCADE", [0, 0, 0, 3, 1]),
    ],
)
def test_hindsight_deletes_as_before(linked, deed, left):
    """Expect deletes and a restore's TRUNCATE to go through, and rcll's own tables to be spared."""
    with linked.connect() as conn:
        conn.execute(deed)
        assert counts(conn) == left


def test_hindsight_renames_banks_as_before(linked):
    """Expect the rename by every column called bank_id, its foreign keys deferred, to take closets and ledger along."""
    with linked.connect() as conn, conn.transaction():
        keys = conn.execute(
            "SELECT DISTINCT conrelid::regclass::text, conname FROM pg_constraint f JOIN pg_attribute a"
            " ON a.attrelid = conrelid AND attnum = ANY (conkey) WHERE contype = 'f' AND attname = 'bank_id'"
        ).fetchall()
        for table, key in keys:
            conn.execute(f"ALTER TABLE {table} ALTER CONSTRAINT {key} DEFERRABLE INITIALLY DEFERRED")
        tables = conn.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " WHERE c.relkind = 'r' AND a.attname = 'bank_id' AND NOT a.attisdropped"
        ).fetchall()
        for (table,) in tables:
            conn.execute(f"UPDATE {table} SET bank_id = 'garden' WHERE bank_id = 'orchard'")
        conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert conn.execute("SELECT bank_id FROM closets").fetchall() == [("garden",)]
        assert conn.execute("SELECT count(*) FROM rcll_labels WHERE bank_id = 'garden'").fetchone() == (2,)


@pytest.mark.parametrize("relationship", ["same_concept", None])
def test_tunnels_are_one_each_way(linked, relationship):
    """Expect a second tunnel of the same relationship between the same two units to be refused, in either direction."""
    add = (
        "INSERT INTO tunnels (id, source_unit_id, target_unit_id, relationship) VALUES (gen_random_uuid(), %s, %s, %s)"
    )
    with linked.connect() as conn:
        conn.execute("DELETE FROM tunnels")
        conn.execute(add, (FIRST, THIRD, relationship))
        conn.execute(add, (FIRST, THIRD, "extends"))
        with pytest.raises(psycopg.errors.UniqueViolation):
            conn.execute(add, (THIRD, FIRST, relationship))
        with pytest.raises(psycopg.errors.CheckViolation):
            conn.execute(add, (FIRST, FIRST, relationship))
        assert conn.execute("SELECT DISTINCT method FROM tunnels").fetchall() == [("explicit",)]


def test_foreign_keys_are_indexed(migrated):
    """Expect an index that begins with the column of every foreign key of ours: deletes look for referrers."""
    with migrated("hindsight").connect() as conn:
        bare = conn.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint f"
            " WHERE contype = 'f' AND conrelid::regclass::text IN ('tunnels', 'closets', 'closet_sources')"
            " AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = f.conrelid AND i.indkey[0] = f.conkey[1])"
        ).fetchall()
    assert bare == []


def test_new_tables_belong_to_the_owner_of_the_units(role, database_of, tenant_of):
    """Expect a superuser's migration to leave tables that the server's own role can rename and truncate."""
    database = database_of("hindsight")
    with database.connect() as conn:
        conn.execute(f"GRANT ALL ON SCHEMA public TO {role}")
        for table in ("banks", "documents", "memory_units", "invalidated_memory_units", "memory_links"):
            conn.execute(f"ALTER TABLE {table} OWNER TO {role}")
        migrate(database, tenant_of(database))
        owners = conn.execute(
            "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind = 'r'"
        ).fetchall()
        assert owners == [(role,)]
        rollback(database, tenant_of(database))
        conn.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}")


# -- the way back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_way_back_leaves_what_was_there(database_of, tenant_of, kind):
    """Expect the catalog and the rows of before; and that forth works again after back."""
    database = database_of(kind)
    with database.connect() as conn:
        before, units = columns(conn), conn.execute("SELECT * FROM memory_units ORDER BY id").fetchall()
        migrate(database, tenant_of(database))
        rollback(database, tenant_of(database))
        assert columns(conn) == before
        assert conn.execute("SELECT * FROM memory_units ORDER BY id").fetchall() == units
        rollback(database, tenant_of(database))
    assert names(migrate(database, tenant_of(database))) == ALL


def test_preview_counts_the_losses(linked, tenant_of):
    """Expect values that are no default, rows of each table, and the labels that somebody set on purpose."""
    with linked.connect() as conn:
        losses = rollback_preview(conn, tenant_of(linked))
    assert losses.columns == {
        "closet_sources.replaced": 0,
        "invalidated_memory_units.hall": 0,
        "invalidated_memory_units.layer": 0,
        "invalidated_memory_units.room": 0,
        "memory_units.hall": 0,
        "memory_units.layer": 0,
        "memory_units.room": 1,
        "rcll_labels.gone_at": 0,
    }
    assert losses.tables == {
        "rcll_changes": 0,
        "rcll_explicit": 1,
        "rcll_keys": 0,
        "rcll_labels": 3,
        "rcll_leases": 0,
        "rcll_runs": 0,
        "closet_sources": 1,
        "closets": 1,
        "tunnels": 1,
    }
    assert losses.explicit_labels == 1


def test_way_back_works_after_somebody_tidied_up(linked, tenant_of):
    """Expect preview and way back to pass over what is gone already."""
    tenant = tenant_of(linked)
    with linked.connect() as conn:
        conn.execute("DROP TABLE rcll_labels; DROP TABLE tunnels; ALTER TABLE memory_units DROP COLUMN hall")
        assert rollback_preview(conn, tenant).explicit_labels == 0
        rollback(linked, tenant)
        assert rollback_preview(conn, tenant).tables == {}


def test_way_back_spares_what_others_built_on_it(linked, tenant_of):
    """Expect a refusal that names somebody's view, and nothing gone."""
    with linked.connect() as conn:
        conn.execute("CREATE VIEW rooms AS SELECT DISTINCT room FROM memory_units")
        with pytest.raises(DatabaseError, match=r"; view public\.rooms depends on column room"):
            rollback(linked, tenant_of(linked))
        assert counts(conn) == [1, 1, 1, 3, 1]


def test_way_back_waits_for_runs(linked, tenant_of):
    """Expect Busy with the holder's name while a lease is alive, and a way back once it has expired."""
    lease = (
        "INSERT INTO rcll_leases (bank, holder, fencing, expires_at)"
        " VALUES ('orchard', 'crate pid 7', 1, now() + %s)"
        " ON CONFLICT (bank) DO UPDATE SET expires_at = excluded.expires_at"
    )
    with linked.connect() as conn:
        conn.execute(lease, ("1 hour",))
        with pytest.raises(Busy, match="bank 'orchard' is in use by crate pid 7 since"):
            rollback(linked, tenant_of(linked))
        conn.execute(lease, ("-1 s",))
    rollback(linked, tenant_of(linked))
    assert not tenant_of(linked).has_labels


def test_other_peoples_new_tables_are_not_ours(database_of, tenant_of):
    """Expect a table that another session commits meanwhile not to count as added by this transaction."""
    database = database_of("hindsight")
    tenant = tenant_of(database)
    with database.connect() as ours, database.connect() as theirs, ours.transaction():
        ours.execute("CREATE TABLE made_by_us (x integer)")
        ours.execute("ALTER TABLE memory_units ADD COLUMN room text")
        theirs.execute("CREATE TABLE made_by_them (x integer)")
        assert _objects(ours, tenant, only_ours=True) == {("made_by_us", "x"), ("memory_units", "room")}


# -- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tampering", "words"),
    [
        ("UPDATE rcll_migrations SET checksum = 'x' WHERE name = '0002_ledger'", "migration 0002_ledger has checksum"),
        (
            "INSERT INTO rcll_migrations VALUES ('0099_later', 'x', now(), '9.1', '{}')",
            "migration 0099_later is recorded in schema 'public', but not shipped",
        ),
        (
            "DELETE FROM rcll_migrations WHERE name = '0002_ledger'",
            "migration 0002_ledger is not applied in schema 'public', but the later 0007_retention is",
        ),
    ],
)
def test_disagreeing_records_are_refused(migrated, tenant_of, tampering, words):
    """Expect an edited, a missing and an out-of-order migration to be named, and nothing changed."""
    database = migrated("hindsight")
    with database.connect() as conn:
        conn.execute(tampering)
        before = columns(conn)
        with pytest.raises(MigrationError, match=words):
            migrate(database, tenant_of(database))
        assert columns(conn) == before


def test_half_a_migration_does_not_exist(database_of, tenant_of):
    """Expect a table in the way to be named; what the same migration made before it is gone, earlier ones stay."""
    database = database_of("hindsight")
    with database.connect() as conn:
        conn.execute("CREATE TABLE rcll_changes (x integer)")
        with pytest.raises(DatabaseError, match='relation "rcll_changes" already exists'):
            migrate(database, tenant_of(database))
        assert names(pending(conn, tenant_of(database))) == ALL[1:]
        assert conn.execute("SELECT to_regclass('rcll_runs'), to_regclass('rcll_labels')").fetchone() == (None, None)
        conn.execute("DROP TABLE rcll_changes")
    assert names(migrate(database, tenant_of(database))) == ALL[1:]


def test_role_without_rights_is_told(role, database_of, tenant_of):
    """Expect one line that says what the server refused and which role is needed."""
    database = database_of("hindsight")
    with database.connect() as conn:
        conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    visitor = type(database)(f"{database.url}&user={role}", is_embedded=False)
    with pytest.raises(DatabaseError, match=r"permission denied.*expected the owner of memory_units") as refusal:
        migrate(visitor, tenant_of(visitor))
    assert "\n" not in str(refusal.value)


def test_base_is_made_once_and_nowhere_else(fresh_database, database_of):
    """Expect base tables in an empty embedded database only."""
    assert create_base(fresh_database)
    assert not create_base(fresh_database)
    assert not create_base(database_of("alien"))
    with pytest.raises(DatabaseError, match="embedded database"):
        create_base(type(fresh_database)(fresh_database.url, is_embedded=False))


# -- beside others ---------------------------------------------------------------------------------------------


def test_four_migrators_at_once(database_of, tenant_of):
    """Expect each migration to be applied exactly once, by whoever came first."""
    database = database_of("hindsight")
    tenant = tenant_of(database)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: migrate(database, tenant), range(4)))
    assert sorted(name for applied in done for name in names(applied)) == ALL


def test_long_reader_is_named(database_of, tenant_of, caplog):
    """Expect the session in the way with pid, name and start, at once and at the end; nothing changed, short waits."""
    database = database_of("hindsight")
    tenant = tenant_of(database)
    with database.connect(application_name="nightly dump") as dump, database.connect() as reader:
        with dump.transaction(), ThreadPoolExecutor(1) as pool:
            dump.execute("SELECT count(*) FROM memory_units")
            migration = pool.submit(migrate, database, tenant, patience=1.0)
            longest = 0.0
            while not migration.done():
                told_in_time = bool(caplog.messages)
                asked = time.monotonic()
                reader.execute("SELECT count(*) FROM memory_units")
                longest = max(longest, time.monotonic() - asked)
                time.sleep(0.005)
        with pytest.raises(Transient, match=rf"pid {dump.info.backend_pid} 'nightly dump' since \d{{4}}-"):
            migration.result()
        assert told_in_time
        (told,) = caplog.messages
        assert told.startswith("waiting up to 1 s for a lock on schema 'public', held by pid")
        assert "'nightly dump' since" in told
        assert longest < 0.5
        assert names(pending(reader, tenant)) == ALL


def test_short_transactions_are_waited_for(database_of, tenant_of):
    """Expect the migration to succeed once a writer that held the table for a while has ended."""
    database = database_of("hindsight")
    with database.connect() as writer, ThreadPoolExecutor(1) as pool:
        with writer.transaction():
            writer.execute("UPDATE memory_units SET fact_type = 'experience'")
            migration = pool.submit(migrate, database, tenant_of(database))
            time.sleep(0.4)
            assert not migration.done()
        assert names(migration.result(timeout=30)) == ALL


def test_killed_migrator_leaves_nothing_half_done(database_of, tenant_of):
    """Expect kill -9 in front of a lock to leave whole migrations only, and a second migrator to finish."""
    database = database_of("hindsight")
    program = (
        "import sys; from rcll.store.connect import Database; from rcll.store.catalog import read_tenants;"
        " from rcll.store.migrate import migrate; database = Database(sys.argv[1], is_embedded=False);"
        " migrate(database, read_tenants(database.connect())[0])"
    )
    tenant = tenant_of(database)
    with database.connect() as conn, database.connect() as writer:
        with writer.transaction():
            writer.execute("INSERT INTO banks VALUES ('garden')")
            with subprocess.Popen([sys.executable, "-W", "ignore", "-c", program, database.url]) as migrator:
                while names(pending(conn, tenant)) != ALL[2:] and migrator.poll() is None:
                    time.sleep(0.02)
                migrator.kill()
        assert names(pending(conn, tenant)) == ALL[2:]
        assert conn.execute("SELECT to_regclass('closets')").fetchone() == (None,)
    assert names(migrate(database, tenant)) == ALL[2:]
