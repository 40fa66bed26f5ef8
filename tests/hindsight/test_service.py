"""rcll's routes inside the real Hindsight 1.1.0, loaded as its extensions."""

import asyncio
import json
import re
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError

from rcll.store.catalog import read_tenants
from rcll.store.migrate import migrate
from tests.hindsight.conftest import running_hindsight

EXTENSIONS = {
    "HINDSIGHT_API_HTTP_EXTENSION": "rcll.service.hindsight:RcllHttpExtension",
    "HINDSIGHT_API_OPERATION_VALIDATOR_EXTENSION": "rcll.service.hindsight:RcllLabelExtension",
    "HINDSIGHT_API_MCP_EXTENSION": "rcll.service.hindsight:RcllMcpExtension",
}
TOKEN_RULE = "Never share an access token."
TOKENS = "OAuth2 access tokens of the billing service expire after 15 minutes."
DISKS = [f"Server {host} ran out of disk space in May." for host in ("alder", "birch", "cedar", "fir", "hazel")]


def _migrate(hindsight) -> None:
    with hindsight.database.connect() as conn:
        for tenant in read_tenants(conn):
            migrate(hindsight.database, tenant)


@pytest.fixture(scope="module")
def palace(server, admin, tmp_path_factory):
    """Hindsight with all three extensions, migrated by rcll."""
    folder = tmp_path_factory.mktemp("palace")
    with running_hindsight(server, admin, folder / "hindsight.log", RCLL_HOME=str(folder), **EXTENSIONS) as running:
        early = running.ask("GET", "/banks")
        assert (early.status_code, "rcll migrate" in early.json()["detail"]) == (409, True)
        _migrate(running)
        yield running


def test_retain_goes_through_hindsight_and_is_labelled(palace):
    """Units come out of Hindsight's own retain, with documents and search vector, and bear the labels asked for."""
    body = {
        "items": [{"content": TOKENS, "document_id": "d1", "layer": "L0", "hall": "warning"}, {"content": DISKS[0]}]
    }
    answer = palace.ask("POST", "/banks/team/retain", body)
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["units"]
    assert (first["room"], first["room_source"], first["hall"], first["layer"]) == ("auth", "rule", "warning", 0)
    assert (second["layer"], second["layer_source"]) == (2, "rule")
    rows = palace.rows(
        "SELECT u.room, u.hall, u.layer, u.document_id, u.search_vector IS NOT NULL, l.hall_source, l.room_rule"
        f" FROM memory_units u JOIN rcll_labels l ON l.unit_id = u.id WHERE u.id = '{first['id']}'"
    )
    assert rows[0][:6] == ("auth", "warning", 0, "d1", True, "explicit")
    again = palace.ask("POST", "/banks/team/retain", {"content": TOKENS, "document_id": "d1", "room": "billing"})
    assert again.json()["warnings"] == ["no rule names room 'billing'"]
    assert palace.rows("SELECT DISTINCT room, hall, layer FROM memory_units WHERE document_id = 'd1'") == [
        ("billing", "warning", 0)
    ]


def test_recall_is_hindsights_filtered(palace):
    """Without filters the order is Hindsight's; a room is never starved; critical units stand apart; /ext too."""
    palace.retain("fleet", {f"disk-{n}": text for n, text in enumerate(DISKS)})
    palace.retain("fleet", {"token": TOKENS})
    own = palace.recall("fleet", "disk space")
    found = palace.ask("GET", "/banks/fleet/recall?query=disk+space&limit=50").json()
    assert [result["text"] for result in found["results"]][: len(own)] == own
    only = palace.ask("POST", "/ext/banks/fleet/recall", {"query": "disk space", "room": "auth"}).json()["results"]
    assert [result["text"] for result in only] == [TOKENS]
    unit = only[0]["id"]
    labelled = palace.ask("PATCH", f"/banks/fleet/units/{unit}", {"layer": 0}).json()
    assert (labelled["layer"], labelled["layer_source"]) == (0, "explicit")
    found = palace.ask("GET", "/banks/fleet/recall?query=disk+space&room=infrastructure").json()
    assert [result["id"] for result in found["critical"]] == [unit]
    rooms = palace.ask("GET", "/banks/fleet/rooms").json()
    assert rooms["total"] >= 2


def test_ordinary_retain_is_labelled_as_it_arrives(palace):
    """What Hindsight's own API retains bears its labels and a ledger row at once."""
    palace.retain("ordinary", {"token": TOKENS})
    rows = palace.rows(
        "SELECT u.room, l.room, l.room_source FROM memory_units u JOIN rcll_labels l ON l.unit_id = u.id"
        " WHERE u.bank_id = 'ordinary'"
    )
    assert rows == [("auth", "auth", "rule")]


def test_tunnels_and_closets_stand_at_the_root(palace):
    """A tunnel and a closet are made over HTTP, recalled, and taken away."""
    (one,) = palace.ask("POST", "/banks/near/retain", {"content": TOKENS}).json()["units"]
    (far,) = palace.ask("POST", "/banks/far/retain", {"content": "Access tokens run out quickly."}).json()["units"]
    ends = {"source_unit_id": one["id"], "target_unit_id": far["id"], "relationship": "extends"}
    tunnel = palace.ask("POST", "/tunnels", ends)
    assert tunnel.status_code == 201, tunnel.text
    (hop,) = palace.ask("GET", "/banks/near/recall?query=tokens").json()["tunnels"]
    assert hop["path"] == [one["id"], tunnel.json()["id"], far["id"]]
    closet = palace.ask("POST", "/closets", {"source_unit_ids": [one["id"]]})
    assert closet.status_code == 201, closet.text
    results = palace.ask("GET", "/banks/near/recall?query=tokens").json()["results"]
    assert [(result["kind"], len(result["folded"])) for result in results] == [("closet", 1)]
    for path in (f"/tunnels/{tunnel.json()['id']}", f"/closets/{closet.json()['id']}"):
        assert palace.ask("DELETE", path).status_code == 204
        assert palace.ask("DELETE", path).status_code == 404
    assert palace.ask("GET", "/banks/nix/recall?query=t").status_code == 404
    assert palace.ask("POST", "/banks/near/retain", {"content": "x", "layer": 7}).status_code == 422


#: Calls of Hindsight's own client that use none of our fields.
CALLS = [
    ("POST", "/banks/plain/memories", {"items": [{"content": text, "document_id": f"d{n}"}]})
    for n, text in enumerate([TOKENS, *DISKS])
] + [
    ("POST", "/banks/plain/memories/recall", {"query": "disk space"}),
    ("POST", "/banks/plain/memories/recall", {"query": "tokens", "types": ["world"], "max_tokens": 60}),
    ("POST", "/banks/plain/memories/recall", {"query": ""}),
    ("POST", "/banks/plain/memories/recall", {"query": "tokens", "room": "auth"}),
    ("GET", "/banks/plain/memories/list?limit=3", None),
    ("GET", "/banks/plain/documents", None),
    ("GET", "/banks/plain/tags", None),
    ("GET", "/banks/plain/stats", None),
    ("DELETE", "/banks/plain/documents/d0", None),
    ("GET", "/banks/plain/memories/00000000-0000-0000-0000-000000000000", None),
    ("DELETE", "/banks/plain", None),
]
_CHANGING = r'"[0-9a-f]{8}-[0-9a-f-]{27}"|"\d{4}-\d\d-\d\dT[^"]*"|\d+\.\d+|"[^"]*_0"'


def _answers(hindsight) -> list[tuple[int, str | None, str]]:
    found = []
    for method, path, body in CALLS:
        answer = hindsight.call(method, path, body)
        shape = re.sub(_CHANGING, "*", _steady(answer.json()))
        found.append((answer.status_code, answer.headers.get("x-ignored-params"), shape))
    return found


def _steady(answer: dict[str, Any]) -> str:
    """An answer less what differs from call to call: the order of equals, and work that is still going on."""
    answer.pop("operations_by_status", None)
    if isinstance(results := answer.get("results"), list):
        results.sort(key=lambda result: result["text"])
    return json.dumps(answer)


def test_nothing_changes_where_none_of_our_fields_is_used(hindsight, palace):
    """Hindsight's own calls get the same answers with the extensions as without, ids and times aside."""
    assert _answers(palace) == _answers(hindsight)


def _tool(hindsight, name: str, **arguments: Any) -> Any:
    """Call a tool as an agent does, over Hindsight's own MCP endpoint."""

    async def call() -> Any:
        async with Client(f"{hindsight.base_url}/mcp/") as agent:
            names = {tool.name for tool in await agent.list_tools()}
            assert {"recall_room", "bridge", "retain", "recall"} <= names
            return (await agent.call_tool(name, arguments)).structured_content

    return asyncio.run(call())


def test_agents_recall_rooms_and_build_bridges(palace):
    """The tools stand beside Hindsight's own: recall within a room with critical units, and tunnels of two banks."""
    pair = ("The TLS certificate of server birch expires on 3 June.", "On 3 June birch's TLS certificate expires.")
    for bank, text in zip(("agent-a", "agent-b"), pair, strict=True):
        items = [{"content": text, "room": "infrastructure"}, {"content": TOKEN_RULE, "room": "auth", "layer": 0}]
        assert palace.ask("POST", f"/banks/{bank}/retain", {"items": items}).status_code == 200
    found = _tool(palace, "recall_room", bank_id="agent-a", query="certificate", room="infrastructure", limit=5)
    assert [result["text"] for result in found["results"]] == [pair[0]]
    assert [unit["text"] for unit in found["critical"]] == [TOKEN_RULE]
    made = _tool(palace, "bridge", source_bank_id="agent-a", target_bank_id="agent-b", room="infrastructure", limit=500)
    listed = palace.ask("GET", "/tunnels?bank_id=agent-a").json()
    assert made["n_new"] == len(made["tunnels"]) == listed["total"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"bank_id": "nonesuch", "query": "t"}, "does not exist"),
        ({"bank_id": "agent-a", "query": "t", "max_layer": 7}, "max_layer"),
        ({"bank_id": "agent-a", "query": "a\x00b"}, "NUL"),
    ],
    ids=["bank", "layer", "nul"],
)
def test_tools_say_what_is_wrong(palace, asked, expected):
    """A bank that does not exist, a layer out of range, a NUL: the agent gets one clear line, and no traceback."""
    palace.ask("POST", "/banks/agent-a/retain", {"content": TOKENS})
    with pytest.raises(ToolError, match=expected) as caught:
        _tool(palace, "recall_room", **asked)
    assert "Traceback" not in str(caught.value)
