"""Tunnels and closets that somebody asked for outlive their ends."""

import numpy as np
import pytest

from rcll.stages.closets import source_hash
from rcll.store.closets import WrittenCloset, list_closets, new_closet_id, write_closets
from rcll.store.explicit import (
    Restored,
    dig_explicit,
    forget,
    list_explicit,
    record_closet,
    record_tunnel,
    restore_explicit,
)
from rcll.store.lease import hold_banks
from rcll.store.ledger import start_run
from tests.integration.walks import BANKS

KINDS = ("tunnel", "closet")


@pytest.fixture
def ends(walk):
    """A unit of each bank."""
    return [walk.rows("SELECT min(id::text) FROM memory_units WHERE bank_id = %s", bank)[0][0] for bank in BANKS]


def restore(walk, banks=BANKS):
    """One run's upkeep of what was asked for."""
    with walk.database.connect() as conn:
        run_id = start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
    with hold_banks(walk.database, walk.tenant, list(banks), run_id) as lease:
        return restore_explicit(walk.database, walk.tenant, lease, kinds=KINDS)


def asked_tunnel(walk, ends, relationship="depends_on"):
    """Record and dig a tunnel."""
    with walk.database.connect() as conn:
        found = record_tunnel(conn, walk.tenant, *ends, relationship)
        assert dig_explicit(conn, walk.tenant, [found]) == [found]
    return found


def test_tunnel_comes_back_with_its_ends(walk, ends):
    """While an end is away (invalidated, deleted) the record waits; once it is back, so is the tunnel, once."""
    found = asked_tunnel(walk, ends)
    walk.do("CREATE TABLE away AS SELECT * FROM memory_units WHERE id = %s", ends[0])
    walk.do("DELETE FROM memory_units WHERE id = %s", ends[0])
    assert walk.rows("SELECT count(*) FROM tunnels") == [(0,)]
    assert restore(walk) == Restored(n_waiting=1)
    with walk.database.connect() as conn:
        (record,) = list_explicit(conn, walk.tenant)
    assert (record.missing, record.is_present, record.is_ready) == ([ends[0]], False, False)
    walk.do("INSERT INTO memory_units SELECT * FROM away")
    assert restore(walk) == Restored(n_tunnels=1)
    assert walk.rows("SELECT id::text, method, relationship FROM tunnels") == [(found, "explicit", "depends_on")]
    before = walk.rows("SELECT xmin::text FROM tunnels")
    assert restore(walk) == Restored()
    assert walk.rows("SELECT xmin::text FROM tunnels") == before


def test_found_tunnel_becomes_somebodys_own(walk, ends):
    """Asking for a tunnel that rcll had found takes it over, so that no run fills it in."""
    found = asked_tunnel(walk, ends)
    walk.do("UPDATE tunnels SET method = 'auto'")
    assert restore(walk) == Restored(n_tunnels=1)
    assert walk.rows("SELECT id::text, method FROM tunnels") == [(found, "explicit")]


def test_forgotten_tunnel_stays_away(walk, ends):
    """What was taken away through rcll does not come back."""
    found = asked_tunnel(walk, ends)
    with walk.database.connect() as conn:
        assert forget(conn, walk.tenant, [found]) == [found]
        assert forget(conn, walk.tenant, [found]) == []
    walk.do("DELETE FROM tunnels")
    assert restore(walk) == Restored()


def test_run_on_other_banks_leaves_it_alone(walk, ends):
    """A run puts back only what touches a bank that it holds."""
    asked_tunnel(walk, ends)
    walk.do("DELETE FROM tunnels")
    assert restore(walk, ["carol"]) == Restored()
    assert restore(walk, ["alice"]) == Restored(n_tunnels=1)


def asked_closet(walk, n_dims=4):
    """Write a closet of three of alice's units and record it."""
    rows = walk.rows(
        "SELECT id::text, left(encode(sha256(convert_to(text, 'UTF8')), 'hex'), 32) FROM memory_units"
        " WHERE bank_id = 'alice' ORDER BY id LIMIT 3"
    )
    ids, hashes = zip(*rows, strict=True)
    fingerprint = source_hash(ids, hashes)
    closet = WrittenCloset(
        closet_id=new_closet_id("alice", "general", fingerprint),
        bank_id="alice",
        room="general",
        hall="fact",
        title="A title",
        summary="What they say.",
        embedding=np.arange(n_dims, dtype=np.float32),
        embedding_model="centroid",
        unit_ids=ids,
        text_hashes=hashes,
        source_hash=fingerprint,
        model="extractive",
        is_extractive=True,
        n_read=3,
    )
    with walk.database.connect() as conn:
        run_id = start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
        record_closet(conn, walk.tenant, closet)
    with hold_banks(walk.database, walk.tenant, ["alice"], run_id) as lease:
        assert write_closets(walk.database, walk.tenant, [closet], lease) == []
    return closet


def test_closet_comes_back_word_for_word(walk):
    """After a restore that emptied the table of closets the closet stands as it did, vector and sources included."""
    dims = walk.tenant.embedding.dims
    closet = asked_closet(walk, dims)
    stored = "SELECT id, title, summary, embedding::text, source_hash, model, n_read FROM closets"
    before = walk.rows(stored)
    walk.do("TRUNCATE closets CASCADE")
    assert restore(walk) == Restored(n_closets=1)
    assert walk.rows(stored) == before
    with walk.database.connect() as conn:
        (read,) = list_closets(conn, walk.tenant)
    assert (read.status, read.unit_ids) == ("fresh", list(closet.unit_ids))


def test_closet_waits_while_a_source_reads_differently(walk):
    """A closet whose source was edited meanwhile does not come back with words that are no longer true."""
    closet = asked_closet(walk, walk.tenant.embedding.dims)
    walk.do("UPDATE memory_units SET text = text || ' not' WHERE id = %s", closet.unit_ids[1])
    walk.do("DELETE FROM closets")
    assert restore(walk) == Restored(n_waiting=1)
    assert walk.rows("SELECT count(*) FROM closets") == [(0,)]


def test_closet_comes_back_without_a_vector_that_no_longer_fits(walk):
    """Where the bank's vectors have another dimension now, the words come back and the vector does not."""
    closet = asked_closet(walk, walk.tenant.embedding.dims)
    walk.do("UPDATE rcll_explicit SET payload = jsonb_set(payload, '{embedding}', '[1, 2]')")
    walk.do("DELETE FROM closets")
    assert restore(walk) == Restored(n_closets=1)
    assert walk.rows("SELECT id::text, embedding FROM closets") == [(closet.closet_id, None)]


def test_record_without_ends_is_passed_over(walk):
    """A row that a hand wrote into the table hinders no run."""
    walk.do("INSERT INTO rcll_explicit VALUES (gen_random_uuid(), 'tunnel', '{}'), (gen_random_uuid(), 'closet', '{}')")
    assert restore(walk) == Restored()
