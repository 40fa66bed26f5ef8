"""Tunnels that somebody asks for: unit to unit and bank to bank, their refusals, and the way through them."""

import json
import math
from uuid import UUID

import pytest

from rcll.errors import InputError
from rcll.settings import Settings
from rcll.store.checks import run_checks
from rcll.store.explicit import list_explicit
from rcll.store.tunnels import list_tunnels, tunnel_neighbours
from rcll.walk.bridge import add_tunnel, bridge_banks, remove_tunnel
from rcll.walk.place import Place
from tests.integration.places import SHARED, fill, unit_id
from tests.integration.walks import Walk, migrated

#: Even numbers are alice's, odd ones bob's.
ALICE, BOB = unit_id(0), unit_id(1)


@pytest.fixture
def walk(make_template, clone, tmp_path):
    """Two migrated banks that know six matters in common, filed under infrastructure."""

    def setup(database):
        fill(database, "hindsight")
        migrated(database)
        with database.connect() as conn:
            for number, pair in enumerate(SHARED):
                vector = str([math.sin((1000 + number) * i) for i in range(384)])
                for unit, text in zip((2 * number, 2 * number + 1), pair, strict=True):
                    changed = [text, vector, unit_id(unit)]
                    conn.execute(
                        "UPDATE memory_units SET room = 'infrastructure', text = %s, embedding = %s WHERE id = %s",
                        changed,
                    )

    database = clone(make_template("bridge", setup))
    return Walk(database, migrated(database), tmp_path)


def _neighbours(walk, units, **conditions):
    with walk.database.connect() as conn:
        return tunnel_neighbours(conn, walk.tenant, units, **({"banks": None} | conditions))


def test_tunnel_from_unit_to_unit(walk):
    """It is written once, whichever way round it is asked for, recorded, and leads both ways with the far text."""
    made = add_tunnel(walk.place, ALICE, BOB.upper(), "depends_on")
    again = add_tunnel(walk.place, BOB, ALICE, "depends_on")
    assert (made.n_new, again.n_new) == (1, 0)
    (tunnel,) = again.tunnels
    assert (tunnel.method, tunnel.relationship, tunnel.score) == ("explicit", "depends_on", None)
    there, back = _neighbours(walk, [ALICE, BOB])
    assert (there.direction, there.unit_id, there.bank_id, there.text) == ("out", BOB, "bob", SHARED[0][1])
    assert (back.direction, back.unit_id, back.text) == ("in", ALICE, SHARED[0][0])
    assert back.path == (BOB, tunnel.tunnel_id, ALICE)
    with walk.database.connect() as conn:
        assert [each.id for each in list_explicit(conn, walk.tenant)] == [tunnel.tunnel_id]
        assert run_checks(conn, walk.tenant) == {}


def test_removed_tunnel_is_forgotten(walk):
    """Row and record go together; a second removal says that there is none."""
    (tunnel,) = add_tunnel(walk.place, ALICE, BOB).tunnels
    walk.do("DELETE FROM tunnels")
    assert remove_tunnel(walk.place, tunnel.tunnel_id) is None
    (tunnel,) = add_tunnel(walk.place, ALICE, BOB).tunnels
    assert remove_tunnel(walk.place, tunnel.tunnel_id) == tunnel
    with walk.database.connect() as conn:
        assert list_explicit(conn, walk.tenant) == []
    assert _neighbours(walk, [ALICE]) == []
    with pytest.raises(InputError, match=f"has no tunnel '{tunnel.tunnel_id}'"):
        remove_tunnel(walk.place, tunnel.tunnel_id)


@pytest.mark.parametrize(
    ("source", "target", "relationship", "expected"),
    [
        (ALICE, ALICE, None, "stands at both ends"),
        (ALICE, unit_id(2), None, "both units stand in bank 'alice'"),
        (ALICE, str(UUID(int=10**9)), None, "has no unit .*tunnels never cross tenants"),
        (ALICE, "nonsense", None, "'nonsense' is no unit id; expected a uuid"),
        (ALICE, BOB, " ", "has 0 characters; expected 1 to 256"),
        (ALICE, BOB, "x" * 257, "has 257 characters"),
        (ALICE, BOB, "a\0b", "expected 1 to 256"),
    ],
)
def test_tunnel_that_cannot_be(walk, source, target, relationship, expected):
    """Each is one line, and nothing is written or remembered."""
    with pytest.raises(InputError, match=expected):
        add_tunnel(walk.place, source, target, relationship)
    assert walk.rows("SELECT (SELECT count(*) FROM tunnels), (SELECT count(*) FROM rcll_explicit)") == [(0, 0)]


def test_bridge_between_two_banks(walk):
    """The strongest common matters become explicit, with score and evidence; said again, nothing is new."""
    made = bridge_banks(walk.place, "bob", "alice", "infrastructure")
    assert made.n_new == len(made.tunnels) == len(SHARED)
    assert {tunnel.method for tunnel in made.tunnels} == {"explicit"}
    assert {tunnel.source_unit_id for tunnel in made.tunnels} == {unit_id(2 * n) for n in range(len(SHARED))}
    assert all(tunnel.score and tunnel.evidence and tunnel.evidence["terms"] for tunnel in made.tunnels)
    assert bridge_banks(walk.place, "alice", "bob", "infrastructure").n_new == 0
    assert len(bridge_banks(walk.place, "alice", "bob", "infrastructure", limit=2).tunnels) == 2
    assert bridge_banks(walk.place, "alice", "bob", "infrastructure", hall="warning").tunnels == []
    with walk.database.connect() as conn:
        assert len(list_explicit(conn, walk.tenant)) == len(SHARED)
        assert len(list_tunnels(conn, walk.tenant, relationship="same_concept", banks=["alice"])) == len(SHARED)
        assert list_tunnels(conn, walk.tenant, room="auth") == []


def test_bridge_that_cannot_be(walk):
    """Unknown, equal and private banks and the fallback room are refused; an empty room gives nothing."""
    for one, other, room, expected in (
        ("alice", "alice", "auth", "named twice"),
        ("alice", "carol", "auth", "has no bank 'carol'"),
        ("alice", "bob", "general", "holds what no rule knew"),
    ):
        with pytest.raises(InputError, match=expected):
            bridge_banks(walk.place, one, other, room)
    private = Place(Settings(home=walk.folder, private=("al*",)), walk.database, walk.tenant)
    with pytest.raises(InputError, match="is private"):
        bridge_banks(private, "alice", "bob", "infrastructure")
    assert bridge_banks(walk.place, "alice", "bob", "auth") == ([], 0)


def test_neighbours_are_few_and_only_where_the_caller_may_read(walk):
    """Explicit ones first, then by score; at most so many a unit; none of a bank that is not the caller's to read."""
    bridge_banks(walk.place, "alice", "bob", "infrastructure")
    add_tunnel(walk.place, ALICE, unit_id(3), "depends_on")
    walk.do("UPDATE tunnels SET method = 'auto' WHERE relationship = 'same_concept'")
    assert [far.relationship for far in _neighbours(walk, [ALICE])] == ["depends_on", "same_concept"]
    assert [far.relationship for far in _neighbours(walk, [ALICE], per_unit=1)] == ["depends_on"]
    assert _neighbours(walk, [ALICE], banks=["alice"]) == []
    assert [far.near_unit_id for far in _neighbours(walk, [unit_id(4), unit_id(2)], banks=["bob"])] == [
        unit_id(4),
        unit_id(2),
    ]


def test_database_that_is_not_migrated(make_template, clone, tmp_path):
    """The refusal names the command."""
    walk = Walk(clone(make_template("cli", lambda database: fill(database, "hindsight"))), None, tmp_path)
    from rcll.store.catalog import read_tenants

    with walk.database.connect() as conn:
        (walk.tenant,) = read_tenants(conn)
    with pytest.raises(InputError, match="run rcll migrate first"):
        add_tunnel(walk.place, ALICE, BOB)


@pytest.mark.parametrize("name", ["o'brien", 'team/α "x"', "💡" * 60])
def test_bank_names_of_any_kind(walk, name):
    """Quotes, slashes and unicode change nothing."""
    walk.do("INSERT INTO banks (bank_id) VALUES (%s)", name)
    walk.do("UPDATE memory_units SET bank_id = %s WHERE bank_id = 'bob'", name)
    made = bridge_banks(walk.place, "alice", name, "infrastructure")
    assert {tunnel.target_bank_id for tunnel in made.tunnels} == {name}
    assert json.loads(json.dumps(made.tunnels[0].evidence))["terms"]
    assert {far.bank_id for far in _neighbours(walk, [ALICE], banks=[name])} == {name}
