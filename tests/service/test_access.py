"""Who may do what: every route with the right key, a wrong one, none, one of another bank, one of another tenant."""

import uuid

import httpx
import pytest

from rcll.service.access import Access, key_number, make_key
from rcll.store.catalog import read_tenants
from rcll.store.keys import add_key, revoke_key
from rcll.store.migrate import migrate
from tests.service.calls import recall, retain
from tests.service.conftest import places_of, serving

#: Method, path and body of every route that needs a key; BANK, UNIT, FAR, TUNNEL and CLOSET are filled in.
ROUTES = [
    ("GET", "/banks/BANK/recall?query=token", None),
    ("POST", "/banks/BANK/recall", {"query": "token"}),
    ("GET", "/banks/BANK/rooms", None),
    ("GET", "/tunnels?bank_id=BANK", None),
    ("GET", "/closets?bank_id=BANK", None),
    ("POST", "/banks/BANK/retain", {"content": "OAuth2 tokens expire."}),
    ("PATCH", "/banks/BANK/units/UNIT", {"room": "auth"}),
    ("POST", "/tunnels", {"source_unit_id": "UNIT", "target_unit_id": "FAR"}),
    ("POST", "/bridge", {"source_bank_id": "BANK", "target_bank_id": "BANK-far", "room": "auth"}),
    ("POST", "/closets", {"bank_id": "BANK", "source_unit_ids": ["UNIT"]}),
    ("DELETE", "/tunnels/TUNNEL", None),
    ("DELETE", "/closets/CLOSET", None),
]
N_READS = 5
#: Lists of which everybody sees a part, and what is open without a key.
LISTS = ["/banks", "/tunnels", "/closets"]
OPEN = {("GET", "/health"), ("GET", "/version")}


@pytest.fixture(scope="module")
def fleet(own_template, admin, server, tmp_path_factory):
    """A server of two tenants and keys of all sorts: client, names to fill in, key by name."""
    from rcll.store.connect import Database

    admin.execute(f"CREATE DATABASE service_fleet TEMPLATE {own_template}")
    database = Database(server.url("service_fleet"), is_embedded=True)
    with database.connect() as conn:
        conn.execute("CREATE SCHEMA guests")
        conn.execute("CREATE TABLE guests.banks (LIKE public.banks INCLUDING ALL)")
        conn.execute("CREATE TABLE guests.memory_units (LIKE public.memory_units INCLUDING ALL)")
        conn.execute("ALTER TABLE guests.memory_units DROP COLUMN room, DROP COLUMN hall, DROP COLUMN layer")
        for tenant in read_tenants(conn):
            migrate(database, tenant)
        guests, public = read_tenants(conn)
        keys = {}
        for name, tenant, read, write in (
            ("all", public, ["*"], ["*"]),
            ("right", public, ["team*"], ["team*"]),
            ("reader", public, ["team*"], []),
            ("near-only", public, ["team"], ["team"]),
            ("other-bank", public, ["else"], ["else"]),
            ("other-tenant", guests, ["*"], ["*"]),
            ("revoked", public, ["*"], ["*"]),
        ):
            made = make_key()
            keys[name] = made.secret
            add_key(conn, tenant, key_id=made.key_id, name=name, kept_hash=made.hash, may_read=read, may_write=write)
            if name == "revoked":
                assert revoke_key(conn, tenant, made.key_id)
    with serving(places_of(database, tmp_path_factory.mktemp("home"))) as client:
        client.headers["authorization"] = f"Bearer {keys['all']}"
        (unit,) = retain(client, "team", {"content": "OAuth2 access tokens expire after 15 minutes."})
        (far,) = retain(client, "team-far", {"content": "OAuth2 access tokens expire after a quarter of an hour."})
        retain(client, "else", {"content": "The crane was greased."})
        yield client, {"BANK": "team", "UNIT": unit["id"], "FAR": far["id"]}, keys


def _call(client: httpx.Client, route, names: dict[str, str], key: str | None) -> httpx.Response:
    method, path, body = route
    text = repr((path, body))
    for word in ("TUNNEL", "CLOSET", "UNIT", "FAR", "BANK"):
        text = text.replace(word, names.get(word, str(uuid.uuid4())))
    path, body = eval(text)
    headers = {"authorization": f"Bearer {key}"} if key else {"authorization": ""}
    return client.request(method, path, json=body, headers=headers)


@pytest.fixture
def linked(fleet):
    """The names with a tunnel and a closet that stand."""
    client, names, keys = fleet
    tunnel = _call(client, ROUTES[7], names, keys["all"])
    assert tunnel.status_code == 201, tunnel.text
    closet = _call(client, ROUTES[9], names, keys["all"])
    assert closet.status_code == 201, closet.text
    return names | {"TUNNEL": tunnel.json()["id"], "CLOSET": closet.json()["id"]}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route[0]} {route[1].split('?')[0]}")
def test_every_route_with_every_key(fleet, linked, route):
    """The right key gets in, the reader reads only; strangers get 401, other banks 403 or 404, tenants nothing."""
    client, _, keys = fleet
    is_read = ROUTES.index(route) < N_READS
    for key in (None, "rcll_nonsense", f"{keys['all']}x", keys["revoked"]):
        assert _call(client, route, linked, key).status_code == 401
    refused = {403, 404}
    assert _call(client, route, linked, keys["other-bank"]).status_code in refused
    assert _call(client, route, linked, keys["reader"]).status_code in ({200} if is_read else {403})
    is_far = route[1].startswith(("/tunnels", "/bridge")) and not is_read
    if is_far:  # both ends must be open
        assert _call(client, route, linked, keys["near-only"]).status_code in refused
    elsewhere = _call(client, route, linked, keys["other-tenant"])
    if "retain" in route[1]:  # a bank of that name comes into being in the other tenant
        assert elsewhere.status_code == 200
        assert client.get("/banks/team/rooms").json()["items"][0]["count"] < 10
    elif "bank_id=" not in route[1]:
        assert elsewhere.status_code in {200, 404}
        assert "OAuth2 access tokens expire after 15" not in elsewhere.text
    assert _call(client, route, linked, keys["right"]).status_code in {200, 201, 204}


def test_the_matrix_is_complete(fleet):
    """Every route of the description is in the matrix above, or a list, or needs no key."""
    client, _, _ = fleet
    paths = client.get("/openapi.json").json()["paths"]
    described = {(method.upper(), path) for path, operations in paths.items() for method in operations}
    words = {"{bank_id}": "BANK", "{unit_id}": "UNIT", "{tunnel_id}": "TUNNEL", "{closet_id}": "CLOSET"}
    filled = set()
    for method, path in described - OPEN:
        filled.add((method, "/".join(words.get(part, part) for part in path.split("/"))))
    tried = {(method, path.split("?")[0]) for method, path, _ in ROUTES} | {("GET", path) for path in LISTS}
    assert filled == tried


@pytest.mark.parametrize("path", LISTS)
def test_every_list_with_every_key(fleet, linked, path):
    """Strangers get 401; a key of another bank or tenant sees nothing of this one, the right key all of it."""
    client, _, keys = fleet
    for key in (None, "rcll_nonsense", f"{keys['all']}x", keys["revoked"]):
        assert _call(client, ("GET", path, None), linked, key).status_code == 401
    seen = {key: _call(client, ("GET", path, None), linked, keys[key]).text for key in ("right", "other-bank")}
    seen["other-tenant"] = _call(client, ("GET", "/tunnels", None), linked, keys["other-tenant"]).text
    mine = {"/banks": '"team-far"', "/tunnels": linked["TUNNEL"], "/closets": linked["CLOSET"]}[path]
    assert mine in seen["right"]
    assert mine not in seen["other-bank"] + seen["other-tenant"]


@pytest.mark.parametrize(
    "sent",
    [
        {"authorization": "Basic dGVhbTp0ZWFt"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer rcll_0_" + "x" * 5_000},
        {"authorization": b"Bearer rcll_\xff\xfe_x"},
        {"x-api-key": "rcll_' OR 1=1 --_x"},
        {"x-api-key": ""},
    ],
    ids=["basic", "empty", "long", "bytes", "sql", "blank"],
)
def test_odd_keys_are_wrong_keys(fleet, sent):
    """Whatever is no key of ours gets 401 and names the way in."""
    client, _, _ = fleet
    answer = httpx.get(f"{client.base_url}/banks", headers=sent, timeout=60)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_lists_show_only_what_is_open(fleet, linked):
    """Banks, tunnels and closets of others are not even counted, and a recall does not lead there."""
    client, names, keys = fleet
    near = {"authorization": f"Bearer {keys['near-only']}"}
    assert client.get("/banks", headers=near).json()["items"][0]["bank_id"] == "team"
    assert client.get("/banks", headers=near).json()["total"] == 1
    assert client.get("/tunnels", headers=near).json()["total"] == 0
    assert linked["CLOSET"] in [each["id"] for each in client.get("/closets", headers=near).json()["items"]]
    tunnels = client.get("/tunnels").json()
    assert linked["TUNNEL"] in [each["id"] for each in tunnels["items"]]
    assert client.get("/tunnels?offset=7").json() == tunnels | {"items": [], "offset": 7}
    found = client.get("/banks/team/recall?query=access+tokens", headers=near).json()
    assert found["tunnels"] == []
    hops = recall(client, "team", "access tokens")["tunnels"]
    assert [hop["unit"]["id"] for hop in hops] == [names["FAR"]]


def test_keys_are_split_and_matched():
    """A key names its number; patterns are of whole names, and a name with signs of a pattern stands for itself."""
    made = make_key()
    assert key_number(made.secret) == made.key_id
    assert key_number("sk-123") is None
    access = Access(("team-*", "a[1]"), ())
    assert access.reads("team-a")
    assert access.reads("a[1]")
    assert not access.reads("my-team-a")
    assert not access.writes("team-a")
