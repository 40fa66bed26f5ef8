"""Recognising a database by its catalog: kinds, names, types, and refusals that say what was found."""

import pickle

import pytest
from psycopg import sql

from rcll.errors import DatabaseError, InputError
from rcll.store.catalog import EmbeddingType, read_tenants
from rcll.store.migrate import create_base, migrate


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "hindsight",
            {
                "kind": "hindsight",
                "banks": "banks",
                "bank_key": "bank_id",
                "bank_type": "text",
                "archive": "invalidated_memory_units",
                "text_column": "text",
                "embedding": EmbeddingType("vector", 384, "public"),
                "layer_type": None,
                "has_labels": False,
                "date_columns": ("mentioned_at", "event_date", "created_at"),
                "tunnels": "tunnels",
                "closets": "closets",
            },
        ),
        (
            "specification",
            {
                "kind": "specification",
                "banks": "memory_banks",
                "bank_key": "id",
                "bank_type": "uuid",
                "archive": None,
                "text_column": "content",
                "embedding": EmbeddingType("vector", 1536, "public"),
                "layer_type": None,
                "has_labels": False,
                "date_columns": ("created_at",),
                "tunnels": "tunnels",
                "closets": "closets",
            },
        ),
        (
            "fork",
            {
                "kind": "fork",
                "banks": "banks",
                "bank_key": "bank_id",
                "bank_type": "text",
                "archive": "invalidated_memory_units",
                "text_column": "text",
                "embedding": EmbeddingType("vector", 384, "public"),
                "layer_type": "text",
                "has_labels": True,
                "date_columns": (),
                "tunnels": "rcll_tunnels",
                "closets": "rcll_closets",
            },
        ),
    ],
)
def test_kinds_are_told_apart(database_of, kind, expected, tenant_of):
    """Expect every fact that the stages need, read from the catalog alone, before any migration."""
    tenant = tenant_of(database_of(kind))
    assert {field: getattr(tenant, field) for field in expected} == expected
    assert (tenant.schema, tenant.units, tenant.closet_sources) == (
        "public",
        "memory_units",
        "closet_sources",
    )
    assert not tenant.migrated


@pytest.mark.parametrize("kind", ["hindsight", "specification", "fork"])
def test_kind_survives_migration(database_of, kind, tenant_of):
    """Expect the same kind and names after rcll has added its own columns and tables."""
    database = database_of(kind)
    before = tenant_of(database)
    migrate(database, before)
    after = tenant_of(database)
    assert after.migrated
    assert after.has_labels
    assert (after.kind, after.names()) == (before.kind, before.names())


def test_own_base_is_recognised(fresh_database, tenant_of):
    """Expect kind own for the tables of the embedded default, and no other kind's archive."""
    assert create_base(fresh_database)
    tenant = tenant_of(fresh_database)
    assert (tenant.kind, tenant.archive, tenant.embedding) == (
        "own",
        None,
        EmbeddingType("vector", 256, "public"),
    )


def test_tenants_are_schemas(database_of):
    """Expect each schema with units, and quoted names, whatever search_path says."""
    with database_of("tenants").connect() as conn:
        conn.execute("SET search_path = nowhere")
        south, north = read_tenants(conn)
    assert (south.schema, south.embedding) == ('South "Wing"', None)
    assert (north.schema, north.embedding) == (
        "north-wing",
        EmbeddingType("halfvec", 512, "types of pgvector"),
    )
    assert north.names()["units"] == sql.Identifier("north-wing", "memory_units")
    assert north.names()["vector_type"].as_string() == '"types of pgvector"."halfvec"(512)'
    assert south.names()["vector_type"].as_string() == '"types of pgvector"."vector"(1536)'


def test_named_schemas_only(database_of):
    """Expect the named schemas, each once, and a message with the choice for a name that is none of them."""
    with database_of("tenants").connect() as conn:
        assert [t.schema for t in read_tenants(conn, ["north-wing", "north-wing"])] == ["north-wing"]
        with pytest.raises(InputError, match="schema 'public' holds no memory_units; expected one of South"):
            read_tenants(conn, ["north-wing", "public"])


def test_vectors_of_any_length(database_of, tenant_of):
    """Expect no number of dimensions where the column names none, for the closets too."""
    database = database_of("hindsight")
    with database.connect() as conn:
        conn.execute("ALTER TABLE memory_units ALTER COLUMN embedding TYPE vector")
    tenant = tenant_of(database)
    assert tenant.embedding == EmbeddingType("vector", None, "public")
    assert tenant.names()["vector_type"].as_string() == '"public"."vector"'


def test_tenant_pickles(database_of, tenant_of):
    """Expect a tenant to travel between processes."""
    tenant = tenant_of(database_of("fork"))
    assert pickle.loads(pickle.dumps(tenant)) == tenant


def test_rcll_names_stay_when_the_fork_drops_its_tables(database_of, tenant_of):
    """Expect our tunnels to keep the name that they were made with."""
    database = database_of("fork")
    migrate(database, tenant_of(database))
    with database.connect() as conn:
        conn.execute("DROP TABLE tunnels")
    assert tenant_of(database).tunnels == "rcll_tunnels"


def test_alien_database_is_refused(database_of):
    """Expect what stands there instead of memory_units, what was expected, and what to do, in one line."""
    with database_of("alien").connect() as conn, pytest.raises(DatabaseError) as refusal:
        read_tenants(conn)
    message = str(refusal.value)
    assert "public.recipes, public.shopping_lists" in message
    assert "expected Hindsight's tables" in message
    assert "RCLL_DATABASE_URL" in message
    assert "\n" not in message


def test_empty_database_is_refused(fresh_database):
    """Expect an empty database to be called empty."""
    with (
        fresh_database.connect() as conn,
        pytest.raises(DatabaseError, match="holds no memory_units, but no tables"),
    ):
        read_tenants(conn)


def test_database_without_pgvector_is_refused(fresh_database):
    """Expect the statement that cures it."""
    with fresh_database.connect() as conn:
        conn.execute("DROP EXTENSION vector")
        with pytest.raises(DatabaseError, match=r"no extension vector; expected pgvector.*CREATE EXTENSION vector"):
            read_tenants(conn)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE memory_units DROP COLUMN id CASCADE", "no id; expected id uuid"),
        ("ALTER TABLE memory_units DROP CONSTRAINT memory_units_pkey CASCADE", "id is uuid, unique: False"),
        ("ALTER TABLE memory_units DROP COLUMN bank_id CASCADE", "has no bank_id; expected"),
        ("ALTER TABLE memory_units ALTER COLUMN bank_id TYPE bytea USING '\\x'", "bank_id is bytea"),
        ("ALTER TABLE memory_units RENAME COLUMN text TO words", "words; expected text or content"),
        ("ALTER TABLE memory_units ALTER COLUMN embedding TYPE real[] USING NULL", "embedding is real[]; expected"),
        ("ALTER TABLE memory_units ADD COLUMN room integer", "room is integer; expected character varying(64)"),
        (
            "ALTER TABLE memory_units ADD COLUMN room text GENERATED ALWAYS AS (upper(text)) STORED",
            "room is a generated column; expected one that can be written",
        ),
        ("ALTER TABLE memory_units ADD COLUMN layer boolean", "layer is boolean; expected integer or text"),
        ("ALTER TABLE banks DROP CONSTRAINT banks_pkey", "banks.bank_id text (not unique); expected"),
        ("DROP TABLE banks", "for banks there is nothing; expected banks.bank_id"),
        (
            "ALTER TABLE memory_units RENAME TO units; CREATE VIEW memory_units AS SELECT * FROM units",
            "memory_units is a view or",
        ),
    ],
)  # fmt: skip
def test_unknown_layouts_are_refused(database_of, change, words):
    """Expect what was found and what was expected, in one line that names the schema."""
    with database_of("hindsight").connect() as conn:
        conn.execute("ALTER TABLE memory_units DROP CONSTRAINT memory_units_document_id_bank_id_fkey")
        conn.execute(change)
        with pytest.raises(DatabaseError) as refusal:
            read_tenants(conn)
    message = str(refusal.value)
    assert message.startswith("schema 'public' cannot be worked on: ")
    assert words in message
    assert "\n" not in message


def test_unreadable_schemas_are_left_out(role, database_of):
    """Expect a role to see the tenants that it may read, and to be told when it asks for another."""
    database = database_of("tenants")
    with database.connect() as conn, database.connect(user=role) as theirs:
        with pytest.raises(DatabaseError, match=f"role '{role}' may not read memory_units"):
            read_tenants(theirs)
        conn.execute(f'GRANT USAGE ON SCHEMA "north-wing" TO {role}')
        conn.execute(f'GRANT SELECT ON "north-wing".memory_units TO {role}')
        assert [tenant.schema for tenant in read_tenants(theirs)] == ["north-wing"]
        with pytest.raises(DatabaseError, match=f"role '{role}' may not read memory_units in schema 'South"):
            read_tenants(theirs, ['South "Wing"'])
