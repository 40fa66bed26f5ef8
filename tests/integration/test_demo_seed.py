"""The demo's banks in a database: an old Hindsight as far as rcll can tell."""

import numpy as np
import pytest

from rcll.demo import demo_truth, demo_units, seed_legacy
from rcll.errors import DatabaseError, InputError
from rcll.store.catalog import read_tenants
from rcll.store.seed import load_legacy


@pytest.fixture(scope="module")
def seeded(make_template):
    """Template with the three banks."""
    return make_template("demo_seed", seed_legacy)


def test_catalog_takes_it_for_hindsight(seeded, clone):
    """The schema is recognised as Hindsight's, with text bank ids, an archive, 256 dimensions and no labels."""
    with clone(seeded).connect() as conn:
        (tenant,) = read_tenants(conn)
    assert tenant.kind == "hindsight"
    assert (tenant.banks, tenant.bank_key, tenant.bank_type) == ("banks", "bank_id", "text")
    assert tenant.archive == "invalidated_memory_units"
    assert tenant.embedding.dims == 256
    assert not tenant.has_labels
    assert not tenant.migrated


def test_every_unit_arrives_whole(seeded, clone):
    """Texts, tags and times come back as they were made, each with a vector and a search vector."""
    with clone(seeded).connect() as conn:
        rows = conn.execute(
            "SELECT id::text, bank_id, text, context, fact_type, occurred_start, created_at, tags FROM memory_units"
        ).fetchall()
        incomplete = conn.execute(
            "SELECT count(*) FROM memory_units"
            " WHERE embedding IS NULL OR search_vector = '' OR updated_at <> created_at"
        ).fetchone()
    units = demo_units()
    assert sorted(rows) == sorted(units.iter_rows())
    assert incomplete[0] <= 2  # a note may consist of stop words


def test_vectors_are_exact_and_indexed(seeded, clone):
    """A stored vector equals the embedder's, and each bank has its partial HNSW index."""
    from rcll.models.embed import OfflineEmbedder

    first = demo_units().row(0, named=True)
    with clone(seeded).connect() as conn:
        (stored,) = conn.execute(
            "SELECT embedding::text FROM memory_units WHERE id = %s", [first["unit_id"]]
        ).fetchone()
        indexes = conn.execute("SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'").fetchall()
    expected = OfflineEmbedder().embed([first["text"]])[0]
    assert np.allclose(np.array(stored.strip("[]").split(","), dtype=np.float32), expected, atol=1e-6)
    assert len(indexes) == 3
    assert all("WHERE ((fact_type = 'world'::text) AND (bank_id = 'hollowcomb-" in row[0] for row in indexes)


def test_neighbours_of_a_paraphrase_are_its_siblings(seeded, clone):
    """In the largest room, nine units in ten have one about the same matter among their three nearest."""
    with clone(seeded).connect() as conn:
        rows = conn.execute("SELECT id::text, embedding::text FROM memory_units").fetchall()
    vectors = {unit: np.array(text.strip("[]").split(","), dtype=np.float32) for unit, text in rows}
    room = [t for t in demo_truth().iter_rows(named=True) if t["room"] == "monitoring" and "platform" in t["bank_id"]]
    matters = np.array([t["matter"] for t in room])
    similarity = np.array([vectors[t["unit_id"]] for t in room])
    similarity = similarity @ similarity.T
    np.fill_diagonal(similarity, -1)
    near = matters[np.argsort(-similarity, axis=1)[:, :3]] == matters[:, None]
    repeated = np.array([(matters == matter).sum() > 1 for matter in matters])
    assert near.any(axis=1)[repeated].mean() > 0.9


def test_another_schema_can_be_named(fresh_database):
    """The banks may lie in a schema of their own, which is made; the types stay where the extension is."""
    assert seed_legacy(fresh_database, schema="hollow comb") == demo_units().height
    with fresh_database.connect() as conn:
        (tenant,) = read_tenants(conn)
    assert (tenant.schema, tenant.kind) == ("hollow comb", "hindsight")


def test_a_taken_schema_is_refused(seeded, clone):
    """Seeding where banks are already says so and touches nothing."""
    database = clone(seeded)
    with pytest.raises(DatabaseError, match="holds banks, invalidated_memory_units, memory_units already"):
        seed_legacy(database)
    with database.connect() as conn:
        assert conn.execute("SELECT count(*) FROM memory_units").fetchone() == (demo_units().height,)


def test_missing_embeddings_are_refused(fresh_database):
    """Units without as many vectors are refused before anything is made."""
    with pytest.raises(InputError, match="units came with 1 embeddings"):
        load_legacy(fresh_database, banks={}, units=demo_units(), embeddings=np.zeros((1, 256)), schema="public")
    with fresh_database.connect() as conn:
        assert conn.execute("SELECT to_regclass('public.memory_units')").fetchone() == (None,)
