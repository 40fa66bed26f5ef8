"""What clients get wrong: the right status, a clear detail, nothing half written."""

import json
import uuid
from contextlib import suppress

import httpx
import pytest

from tests.service.calls import recall, retain

UNKNOWN = str(uuid.UUID(int=9))
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"content": "a\x00b"}, 422),
        ({"content": "half \ud800 pair"}, 422),
        ({"content": "x", "metadata": {"half \udfff": 1}}, 422),
        ({"content": "x", "metadata": {"nul": ["\x00"]}}, 422),
        ({"content": "   "}, 422),
        ({"content": ""}, 422),
        ({"content": 7}, 422),
        ({"content": "x", "layer": 7}, 422),
        ({"content": "x", "layer": "L9"}, 422),
        ({"content": "x", "layer": True}, 422),
        ({"content": "x", "layer": 1.5}, 422),
        ({"content": "x", "room": "r" * 65}, 422),
        ({"content": "x", "room": ""}, 422),
        ({"content": "x", "hall": "h\x00"}, 422),
        ({"content": "x", "tags": ["a\x00"]}, 422),
        ({"content": "x", "timestamp": "yesterday"}, 422),
        ({"items": []}, 422),
        ({"items": [{"content": "fine"}, {"content": "x", "layer": 7}]}, 422),
        ([], 422),
        (None, 422),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_unusable_memories(client, bank, body, status):
    """Each is refused whole, with place and reason, and the bank does not come into being."""
    answer = client.post(
        f"/banks/{bank}/retain", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert client.get(f"/banks/{bank}/rooms").status_code == 404


def test_usable_oddities(client, bank):
    """'L2', a room that nobody knows (reported), 64 characters, emoji and unknown fields are taken."""
    body = {"content": "🦔", "layer": "L2", "room": "r" * 64, "hall": "odd", "some_field": 1}
    answer = client.post(f"/banks/{bank}/retain", json=body).json()
    assert answer["warnings"] == [f"no rule names room '{'r' * 64}'", "no rule names hall 'odd'"]
    assert (answer["units"][0]["layer"], answer["units"][0]["layer_source"]) == (2, "explicit")


@pytest.mark.parametrize("name", ["a/b=c", "it's", 'say "x"', "50% off", "ünïcode", "x" * 300, "a{0}b", "back\\slash"])
def test_odd_bank_names(client, name):
    """Any name works, percent-encoded in the path."""
    path = "/banks/" + httpx.URL("http://h/").copy_with(params={"q": name}).query.decode()[2:].replace("+", "%20")
    (unit,) = client.post(f"{path}/retain", json={"content": "OAuth2 tokens expire."}).json()["units"]
    found = client.get(f"{path}/recall", params={"query": "tokens", "room": "auth"}).json()["results"]
    assert [(result["id"], result["bank_id"]) for result in found] == [(unit["id"], name)]


@pytest.mark.parametrize("size", [9_000_000, 12_000_000])
def test_bodies_of_megabytes(client, bank, size):
    """413, whether the length is said or not."""
    body = json.dumps({"content": "x" * size}).encode()
    assert client.post(f"/banks/{bank}/retain", content=body, headers=JSON).status_code == 413
    chunks = (body[start : start + 500_000] for start in range(0, len(body), 500_000))
    with suppress(httpx.WriteError):  # the server may close the connection before all of it is sent
        assert client.post(f"/banks/{bank}/retain", content=chunks, headers=JSON).status_code == 413
    assert client.get(f"/banks/{bank}/rooms").status_code == 404


@pytest.mark.parametrize(
    "query",
    ["", "query=", "query=%20", "query=a%00b", "query=t&layer=x&max_layer=9", "query=t&limit=0", "query=t&room="],
)
def test_unusable_questions(client, bank, query):
    """422 with the field that is wrong."""
    retain(client, bank, {"content": "OAuth2 tokens expire."})
    answer = client.get(f"/banks/{bank}/recall?{query}")
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][0] == "query"


def test_unknown_banks_and_units(client, bank):
    """404 names what is missing."""
    for method, path, body in (
        ("GET", f"/banks/{bank}/recall?query=t", None),
        ("GET", f"/banks/{bank}/rooms", None),
        ("PATCH", f"/banks/{bank}/units/{UNKNOWN}", {"room": "auth"}),
        ("DELETE", f"/tunnels/{UNKNOWN}", None),
        ("DELETE", f"/closets/{UNKNOWN}", None),
        ("POST", "/tunnels", {"source_unit_id": UNKNOWN, "target_unit_id": str(uuid.uuid4())}),
        ("POST", "/closets", {"source_unit_ids": [UNKNOWN]}),
        ("POST", "/bridge", {"source_bank_id": bank, "target_bank_id": "nix", "room": "auth"}),
    ):
        answer = client.request(method, path, json=body)
        assert answer.status_code == 404, (path, answer.text)
        assert "'" in answer.json()["detail"]


def test_unlikely_links(client, bank):
    """A tunnel to itself or inside a bank, a closet of two banks, room general, neither way of a bridge: 422."""
    (one, two) = retain(client, bank, {"content": "OAuth2 tokens expire."}, {"content": "OAuth2 tokens are signed."})
    (far,) = retain(client, f"{bank}-far", {"content": "Access tokens run out."})
    for path, body in (
        ("/tunnels", {"source_unit_id": one["id"], "target_unit_id": one["id"]}),
        ("/tunnels", {"source_unit_id": one["id"], "target_unit_id": two["id"]}),
        ("/tunnels", {"source_unit_id": one["id"], "target_unit_id": far["id"], "relationship": "r" * 257}),
        ("/tunnels", {"source_unit_id": "no-uuid", "target_unit_id": far["id"]}),
        ("/closets", {"source_unit_ids": [one["id"], far["id"]]}),
        ("/closets", {"source_unit_ids": []}),
        ("/bridge", {"source_bank_id": bank, "target_bank_id": f"{bank}-far", "room": "general"}),
        ("/bridge", {"source_bank_id": bank, "target_bank_id": bank, "room": "auth"}),
        ("/bridge", {"source_bank_id": bank}),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == 422, (path, body, answer.text)
    assert client.get("/tunnels", params={"bank_id": bank}).json()["total"] == 0
    assert client.get("/closets", params={"bank_id": bank}).json()["total"] == 0


def test_deleted_units(client, bank, own_database):
    """A unit that went meanwhile: 404 for links, and what stood on it is no longer told."""
    one, two = retain(client, bank, {"content": "OAuth2 tokens expire."}, {"content": "OAuth2 tokens are signed."})
    (far,) = retain(client, f"{bank}-far", {"content": "Access tokens run out."})
    assert client.post("/tunnels", json={"source_unit_id": one["id"], "target_unit_id": far["id"]}).status_code == 201
    assert client.post("/closets", json={"source_unit_ids": [one["id"], two["id"]]}).status_code == 201
    with own_database.connect() as conn:
        conn.execute("DELETE FROM memory_units WHERE id = %s", [one["id"]])
    for path, body in (
        ("/tunnels", {"source_unit_id": one["id"], "target_unit_id": far["id"]}),
        ("/bridge", {"source_unit_id": far["id"], "target_unit_id": one["id"]}),
        ("/closets", {"bank_id": bank, "source_unit_ids": [two["id"], one["id"]]}),
    ):
        answer = client.post(path, json=body)
        assert (answer.status_code, one["id"] in answer.text) == (404, True), (path, answer.text)
    assert client.get("/tunnels", params={"bank_id": bank}).json()["total"] == 0
    (closet,) = client.get("/closets", params={"bank_id": bank}).json()["items"]
    assert closet["status"] == "stale"
    found = recall(client, bank, "tokens")
    assert ([result["id"] for result in found["results"]], found["tunnels"]) == ([two["id"]], [])


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"content": "\xc3"}', b"[" * 20_000, b'{"content": 1e999}'])
def test_bodies_that_are_no_json(client, bank, body):
    """422 or 400, and the server lives on."""
    answer = client.post(f"/banks/{bank}/retain", content=body, headers=JSON)
    assert answer.status_code in {400, 422}
    assert answer.json()["detail"]
    assert client.get("/health").status_code == 200


def test_labels_are_set_and_cleared(client, bank, own_database):
    """PATCH sets explicit labels field by field; clear hands the unit back, and the rules decide at once."""
    (unit,) = retain(client, bank, {"content": "OAuth2 tokens expire."})
    path = f"/banks/{bank}/units/{unit['id']}"
    for body in ({}, {"clear": True, "room": "ui"}, {"layer": 7}, {"room": "x" * 65}):
        assert client.patch(path, json=body).status_code == 422
    was = client.patch(path, json={"room": "ui", "layer": "L0"}).json()
    assert (was["room"], was["room_source"], was["layer"], was["hall_source"]) == ("ui", "explicit", 0, "rule")
    assert [u["id"] for u in recall(client, bank, "tokens")["critical"]] == [unit["id"]]
    now = client.patch(path, json={"clear": True}).json()
    assert (now["room"], now["room_source"], now["layer"]) == ("auth", "rule", 2)
    assert client.patch(f"/banks/{bank}-other/units/{unit['id']}", json={"room": "ui"}).status_code == 404
    with own_database.connect() as conn:
        conn.execute("DELETE FROM memory_units WHERE id = %s", [unit["id"]])
    assert client.patch(path, json={"room": "ui"}).status_code == 404


def test_too_many_calls(own_template, clone, serve):
    """429 says when to come back."""
    client = serve(clone(own_template), rate="2/minute")
    codes = [client.get("/banks").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert int(client.get("/banks").headers["retry-after"]) > 0


def test_other_names_of_the_host_are_refused(client):
    """A web page that reaches loopback through a name of its own gets nothing."""
    assert client.get("/banks", headers={"host": "evil.example"}).status_code == 400
