"""Retain: documents that come again, what runs and people have decided before, and tables of other kinds."""

import asyncio
import uuid

import httpx
import pytest
from pydantic import SecretStr

from rcll.service.palace import OwnSpace, Palace
from rcll.service.units import label_found
from rcll.settings import Settings
from rcll.store.catalog import read_tenants
from rcll.store.migrate import migrate
from rcll.store.pool import Pool
from rcll.taxonomy import load_taxonomy
from rcll.walk.place import Place
from tests.integration.conftest import DATABASES
from tests.integration.places import fill
from tests.integration.walks import BANKS, Walk
from tests.service.calls import recall, retain
from tests.service.conftest import serving

TOKEN = "OAuth2 access tokens expire after 15 minutes."
ORCHARD = "00000000-0000-4000-9000-00000000000a"


def test_a_document_that_comes_again_replaces_itself(client, bank):
    """Texts that are there no more go, those still there keep id and explicit label, new ones come; others stay."""
    first, _ = retain(
        client,
        bank,
        {"content": TOKEN, "document_id": "d", "room": "ui"},
        {"content": "Refresh tokens last a day.", "document_id": "d"},
    )
    retain(client, bank, {"content": TOKEN, "document_id": "other"}, {"content": TOKEN})
    again, new = retain(
        client,
        bank,
        {"content": TOKEN, "document_id": "d", "layer": "L1"},
        {"content": "Refresh tokens last a week.", "document_id": "d"},
    )
    assert (again["id"], again["room"], again["room_source"], again["layer"]) == (first["id"], "ui", "explicit", 1)
    found = recall(client, bank, "tokens", limit=50)["results"]
    assert sorted(result["text"] for result in found) == sorted([TOKEN, TOKEN, TOKEN, "Refresh tokens last a week."])
    assert new["id"] in {result["id"] for result in found}


def test_a_refused_document_leaves_the_old_one(client, bank):
    """One bad item, and nothing of the document is replaced."""
    retain(client, bank, {"content": TOKEN, "document_id": "d"})
    items = [{"content": "New.", "document_id": "d"}, {"content": "x", "layer": 7}]
    assert client.post(f"/banks/{bank}/retain", json={"items": items}).status_code == 422
    assert [result["text"] for result in recall(client, bank, "tokens")["results"]] == [TOKEN]


@pytest.fixture
def walk(make_template, clone, tmp_path):
    """Two banks of plain units, filed by one run as room auth; the number of that run."""
    database = clone(make_template("service_walk", lambda database: fill(database, "hindsight")))
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
        migrate(database, tenant)
        (tenant,) = read_tenants(conn)
    return Walk(database, tenant, tmp_path)


def _label(walk, unit_ids):
    """Label units as the hook inside a memory server does after a retain that brought them again."""

    async def run():
        pool = Pool(walk.database, size=1)
        await pool.open()
        try:
            space = OwnSpace(walk.place, pool)
            palace = Palace(
                place=walk.place, pool=pool, taxonomy=load_taxonomy(None), space=space, has_types=False, has_index=False
            )
            return await label_found(palace, BANKS[0], unit_ids, again=True)
        finally:
            await pool.close()

    return asyncio.run(run())


def _unit(walk) -> str:
    return walk.rows("SELECT min(id::text) FROM memory_units WHERE bank_id = %s", BANKS[0])[0][0]


def test_what_rcll_wrote_before_is_not_taken_for_somebodys_wish(walk):
    """A label that a run wrote and a restore brought back is the rules' again; one that nobody of us wrote is kept."""
    walk.apply(walk.plan("auth"))
    walk.apply(walk.plan("api", rules="U"))
    unit = _unit(walk)
    walk.do("UPDATE memory_units SET room = 'auth' WHERE id = %s", unit)
    (label,) = _label(walk, [unit])
    assert (label.room, label.room_source) == ("general", "rule")
    walk.do("UPDATE memory_units SET room = 'attic' WHERE id = %s", unit)
    (label,) = _label(walk, [unit])
    assert (label.room, label.room_source) == ("attic", "explicit")


def test_a_hold_stays_until_the_text_changes(walk):
    """What an undo holds is not filed again by a retain of the same text; an edited text ends the hold."""
    unit = _unit(walk)
    _label(walk, [unit])
    walk.do("UPDATE rcll_labels SET is_held = true, room = 'attic' WHERE unit_id = %s", unit)
    walk.do("UPDATE memory_units SET room = 'attic' WHERE id = %s", unit)
    (label,) = _label(walk, [unit])
    assert (label.room, label.room_source) == ("attic", "rule")
    assert walk.rows("SELECT is_held FROM rcll_labels WHERE unit_id = %s", unit) == [(True,)]
    walk.do("UPDATE memory_units SET text = %s WHERE id = %s", TOKEN, unit)
    (label,) = _label(walk, [unit])
    assert (label.room, label.room_source) == ("auth", "rule")
    assert walk.rows("SELECT is_held FROM rcll_labels WHERE unit_id = %s", unit) == [(False,)]


@pytest.fixture
def of_kind(clone, tmp_path, openai_double):
    """Return ``of_kind(kind)``: a migrated database of a kind, as a place with an embedder for its width."""

    def make(kind: str) -> Place:
        database = clone()
        with database.connect() as conn:
            conn.execute((DATABASES / f"{kind}.sql").read_text(encoding="utf-8"))
            (tenant,) = read_tenants(conn)
            migrate(database, tenant)
            (tenant,) = read_tenants(conn)
        openai_double.dims = tenant.embedding.dims
        settings = Settings(
            home=tmp_path,
            embed_model="double",
            embed_base_url=openai_double.base_url,
            embed_api_key=SecretStr("test-key"),
        )
        return Place(settings, database, tenant)

    return make


def test_retain_into_a_fork(of_kind):
    """Its layers are text: 'L1' in the table, 1 in the answer; its own tables are left alone, and recall finds it."""
    place = of_kind("fork")
    with serving([place]) as client:
        (unit,) = retain(client, "orchard", {"content": TOKEN, "layer": "L1"})
        assert (unit["room"], unit["layer"]) == ("auth", 1)
        (found,) = recall(client, "orchard", "tokens", room="auth")["results"]
        assert (found["id"], found["layer"]) == (unit["id"], 1)
    with place.database.connect() as conn:
        stored = conn.execute("SELECT room, layer FROM memory_units WHERE id = %s", [unit["id"]]).fetchall()
        assert stored == [("auth", "L1")]
        assert conn.execute("SELECT count(*) FROM tunnels").fetchone() == (1,)


def test_retain_into_the_specification_read_literally(of_kind):
    """Banks are uuids that must exist: 404 for a name that is none or that nobody made, and nothing is written."""
    place = of_kind("specification")
    with serving([place]) as client:
        (unit,) = retain(client, ORCHARD, {"content": TOKEN})
        assert [r["id"] for r in recall(client, ORCHARD, "tokens", room="auth")["results"]] == [unit["id"]]
        for unknown in ("orchard", str(uuid.uuid4())):
            answer = client.post(f"/banks/{unknown}/retain", json={"content": TOKEN})
            assert answer.status_code == httpx.codes.NOT_FOUND, answer.text
            assert client.get(f"/banks/{unknown}/recall?query=t").status_code == httpx.codes.NOT_FOUND
    with place.database.connect() as conn:
        assert conn.execute("SELECT count(*) FROM memory_units").fetchone() == (3,)


def test_retain_into_a_memory_servers_tables_is_refused(make_template, clone, tmp_path):
    """Only Hindsight can retain into its tables: 409 says how to load rcll into it."""
    database = clone(make_template("service_walk", lambda database: fill(database, "hindsight")))
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
        migrate(database, tenant)
        (tenant,) = read_tenants(conn)
    with serving([Place(Settings(home=tmp_path), database, tenant)]) as client:
        answer = client.post("/banks/alice/retain", json={"content": TOKEN})
        assert answer.status_code == httpx.codes.CONFLICT
        assert "HINDSIGHT_API_HTTP_EXTENSION" in answer.json()["detail"]
