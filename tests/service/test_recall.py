"""Recall over a real socket: filters, layers, closets, tunnels, order."""

import uuid

import pytest

from tests.service.calls import recall, retain

WORDS = ("copper", "maple", "violet", "granite", "harbour", "lantern", "meadow", "orchid", "pepper", "quartz")


def _texts(n: int, matter: str = "OAuth2 access token of the {word} service expires after {n} minutes") -> list[str]:
    return [matter.format(word=WORDS[k % len(WORDS)], n=k + 1) for k in range(n)]


def test_retained_memory_is_labelled_and_found(client, bank):
    """Room and hall come from the rules where nothing is given, and the text is the first that a recall finds."""
    (unit,) = retain(client, bank, {"content": "OAuth2 access tokens expire after 15 minutes."})
    assert (unit["room"], unit["room_source"]) == ("auth", "rule")
    found = recall(client, bank, "when do access tokens expire")
    assert [result["id"] for result in found["results"]] == [unit["id"]]
    assert found["results"][0]["room"] == "auth"
    assert found["results"][0]["score"] > 0.3


def test_room_and_hall_filter_what_is_found_and_never_starve(client, bank):
    """Only the rooms and halls asked for come back, as many as there are, though others are nearer to the query."""
    retain(client, bank, *({"content": text} for text in _texts(60)))
    far = retain(client, bank, *({"content": f"Invoice {n} was paid.", "room": "tax"} for n in range(5)))
    found = recall(client, bank, "OAuth2 access token expires", room="tax", limit=10)["results"]
    assert {result["id"] for result in found} == {unit["id"] for unit in far}
    both = recall(client, bank, "OAuth2 access token", room=["tax", "auth"], limit=50)["results"]
    assert {result["room"] for result in both} == {"auth"}
    assert len(both) == 50
    asked = {"query": "token", "rooms": "tax", "halls": ["event", "fact"], "max_layer": "L2"}
    posted = client.post(f"/banks/{bank}/recall", json=asked).json()["results"]
    assert {result["room"] for result in posted} == {"tax"}
    assert {result["hall"] for result in posted} <= {"event", "fact"}


def test_unknown_room_is_an_empty_answer(client, bank):
    """A room that nobody uses holds nothing: no error."""
    retain(client, bank, {"content": "OAuth2 access tokens expire."})
    assert recall(client, bank, "tokens", room="nonesuch")["results"] == []


def test_critical_units_come_with_every_recall(client, bank):
    """Layer 0 stands in its own list, outside the limit and whatever room is asked for, nearest first, counted."""
    critical = retain(
        client,
        bank,
        *({"content": f"Never delete the {word} database.", "room": "schema", "layer": "L0"} for word in WORDS),
    )
    retain(client, bank, *({"content": text} for text in _texts(8)))
    found = recall(client, bank, "delete the violet database", room="auth", limit=3, l0_limit=4)
    assert len(found["results"]) == 3
    assert {result["layer"] for result in found["results"]} == {2}
    assert len(found["critical"]) == 4
    assert found["critical_total"] == len(critical)
    assert "violet" in found["critical"][0]["text"]
    alone = recall(client, bank, "delete the violet database", max_layer=0, limit=3)
    assert [result["layer"] for result in alone["results"]] == [0, 0, 0]


def test_archive_comes_on_request_only(client, bank):
    """Layer 3 is found with max_layer=3 and not without."""
    (old,) = retain(client, bank, {"content": "The old login endpoint was deprecated.", "layer": 3})
    assert recall(client, bank, "old login endpoint")["results"] == []
    found = recall(client, bank, "old login endpoint", max_layer=3)["results"]
    assert [result["id"] for result in found] == [old["id"]]


def test_answers_are_the_same_every_time(client, bank):
    """Twins in text and distance come in the order of their ids, call after call."""
    twins = retain(client, bank, *({"content": "The harbour crane was greased."} for _ in range(30)))
    first = recall(client, bank, "crane", limit=12)["results"]
    assert [result["id"] for result in first] == sorted(unit["id"] for unit in twins)[:12]
    assert recall(client, bank, "crane", limit=12)["results"] == first


def test_labels_set_by_raw_sql_count_before_the_next_run(client, bank, own_database):
    """A unit moved to a room by somebody else's SQL is found there, and no longer where the ledger has it."""
    first, second = retain(client, bank, *({"content": text} for text in _texts(2)))
    with own_database.connect() as conn:
        conn.execute("UPDATE memory_units SET room = 'ui' WHERE id = %s", [first["id"]])
    assert [r["id"] for r in recall(client, bank, "token", room="auth")["results"]] == [second["id"]]


@pytest.fixture
def closet(client, bank, own_database):
    """A fresh closet over three units of a bank; its id and theirs, and two more units."""
    units = retain(client, bank, *({"content": text} for text in _texts(5)))
    closet_id, members = str(uuid.uuid4()), [unit["id"] for unit in units[:3]]
    with own_database.connect() as conn:
        conn.execute(
            "INSERT INTO closets (id, bank_id, room, hall, title, summary, embedding, source_unit_ids, source_hash,"
            "                     model, is_extractive, n_read, n_sources)"
            " SELECT %s, bank_id, 'auth', 'fact', 'Tokens', 'Access tokens expire soon.', avg(embedding),"
            "        array_agg(id), 'h', 'extract', true, 3, 3 FROM memory_units WHERE id = ANY(%s::uuid[])"
            " GROUP BY bank_id",
            [closet_id, members],
        )
        conn.execute(
            "INSERT INTO closet_sources SELECT %s, id, left(encode(sha256(convert_to(text, 'UTF8')), 'hex'), 32),"
            " row_number() OVER (ORDER BY id) FROM memory_units WHERE id = ANY(%s::uuid[])",
            [closet_id, members],
        )
    return closet_id, members, [unit["id"] for unit in units[3:]]


def test_fresh_closet_folds_its_members(client, bank, closet):
    """The closet stands among the results with its sources; the members found are under it, the others beside it."""
    closet_id, members, others = closet
    found = recall(client, bank, "access token expires")["results"]
    (shown,) = [result for result in found if result["kind"] == "closet"]
    assert (shown["id"], shown["text"]) == (closet_id, "Access tokens expire soon.")
    assert sorted(shown["source_unit_ids"]) == sorted(members)
    assert sorted(unit["id"] for unit in shown["folded"]) == sorted(members)
    assert sorted(result["id"] for result in found if result["kind"] == "unit") == sorted(others)
    assert len(recall(client, bank, "access token expires", limit=3)["results"]) == 3


@pytest.mark.parametrize(
    "change",
    ["UPDATE memory_units SET text = text || '!'", "DELETE FROM memory_units", "UPDATE memory_units SET room = 'ui'"],
)
def test_closet_with_a_changed_source_is_not_shown(client, bank, own_database, closet, change):
    """One source that reads differently, is gone or stands elsewhere, and the summary is no longer told."""
    closet_id, members, _ = closet
    with own_database.connect() as conn:
        conn.execute(f"{change} WHERE id = %s", [members[0]])
    found = recall(client, bank, "access token expires", max_layer=3)["results"]
    assert closet_id not in {result["id"] for result in found}


def test_members_of_a_stale_closet_speak_for_themselves(client, bank, own_database, closet):
    """Archived members are found through their closet alone; once it is stale each is found again, inside filters."""
    closet_id, members, others = closet
    with own_database.connect() as conn:
        conn.execute('UPDATE closet_sources SET replaced = \'{"layer": "2"}\' WHERE closet_id = %s', [closet_id])
        for statement in (
            "UPDATE memory_units SET layer = 3 WHERE id = ANY(%s::uuid[])",
            "UPDATE rcll_labels SET layer = 3, layer_source = 'archived' WHERE unit_id = ANY(%s::uuid[])",
        ):
            conn.execute(statement, [members])
    covered = recall(client, bank, "access token expires")["results"]
    assert {result["id"] for result in covered} == {closet_id, *others}
    with own_database.connect() as conn:
        conn.execute("UPDATE memory_units SET text = text || '!' WHERE id = %s", [members[0]])
    assert {r["id"] for r in recall(client, bank, "access token expires")["results"]} == {*members, *others}
    assert len(recall(client, bank, "access token expires", limit=2)["results"]) == 2
    assert recall(client, bank, "access token expires", room="ui")["results"] == []
    assert recall(client, bank, "access token expires", max_layer=1)["results"] == []


def test_closet_that_somebody_asked_for_may_gather_rooms(client, bank, own_database, closet):
    """A closet of units of several rooms is fresh for every reader if somebody asked for it, else stale."""
    closet_id, members, _ = closet
    with own_database.connect() as conn:
        conn.execute("UPDATE memory_units SET room = 'ui' WHERE id = %s", [members[0]])
    listed = client.get("/closets", params={"bank_id": bank}).json()["items"]
    assert [each["status"] for each in listed] == ["stale"]
    with own_database.connect() as conn:
        conn.execute(
            "INSERT INTO rcll_explicit (id, kind, payload) VALUES (%s, 'closet', '{}')",
            [closet_id],
        )
    listed = client.get("/closets", params={"bank_id": bank}).json()["items"]
    assert [each["status"] for each in listed] == ["fresh"]
    assert closet_id in {result["id"] for result in recall(client, bank, "access token expires")["results"]}


@pytest.fixture
def tunnel(client, bank, own_database):
    """A tunnel from bank team to bank other; near and far unit."""
    (near,) = retain(client, bank, {"content": "OAuth2 access tokens expire."})
    (far,) = retain(client, f"{bank}-far", {"content": "The greenhouse holds forty orchids."})
    with own_database.connect() as conn:
        conn.execute(
            "INSERT INTO tunnels (id, source_unit_id, target_unit_id, source_bank_id, target_bank_id, relationship)"
            " VALUES (gen_random_uuid(), %s, %s, '', '', 'depends_on')",
            [far["id"], near["id"]],
        )
    return near["id"], far["id"]


def test_tunnel_surfaces_the_far_unit_with_its_path(client, bank, tunnel):
    """Both directions lead across, one hop, and the way is told; without tunnels nothing is."""
    near, far = tunnel
    (hop,) = recall(client, bank, "access tokens")["tunnels"]
    assert (hop["path"][0], hop["path"][2]) == (near, far)
    assert (hop["unit"]["bank_id"], hop["tunnel"]["relationship"]) == (f"{bank}-far", "depends_on")
    assert [hop["unit"]["id"] for hop in recall(client, f"{bank}-far", "orchids")["tunnels"]] == [near]
    assert recall(client, bank, "access tokens", tunnels=False)["tunnels"] == []
