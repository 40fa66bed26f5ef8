"""The whole walk beside a real Hindsight 1.1.0: what it could do before, it can do after."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.integration.places import REPEATED, SHARED

NEVER_TOUCHED = """
    SELECT md5(string_agg(concat_ws('|', id, bank_id, text, tags, metadata, updated_at, embedding), '~' ORDER BY id))
    FROM memory_units
"""
HOSTS = ("alder", "birch", "cedar", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "spruce", "willow")


def _texts(bank: str) -> dict[str, str]:
    """What a bank retains, by document: disks of its own, what both banks know, and what one of them repeats."""
    disks = {f"disk-{host}": f"Server {host} ran out of disk space on {day} May." for day, host in enumerate(HOSTS, 1)}
    shared = {f"shared-{n}": pair[bank == "team-b"] for n, pair in enumerate(SHARED)}
    repeated = {f"repeated-{n}": text for n, text in enumerate(REPEATED) if bank == "team-a"}
    return (
        disks
        | shared
        | repeated
        | {
            "token": "OAuth2 access tokens of the billing service expire after 15 minutes.",
            "never": "Never delete the production database without a verified backup.",
            "chat": "Lena likes her tea without sugar.",
        }
    )


@pytest.fixture
def rcll(hindsight, tmp_path):
    """Return ``rcll(*words)``: run the program on Hindsight's database and give its JSON."""
    environment = os.environ | {
        "RCLL_DATABASE_URL": hindsight.database.url,
        "RCLL_HOME": str(tmp_path / "home"),
        "RCLL_CLOSET_THRESHOLD": "8",
        "RCLL_TUNNEL_PAIRS": '[["team-*", "team-*"]]',
    }

    def run(*words: str):
        program = Path(sys.executable).parent / "rcll"
        done = subprocess.run([program, *words, "--json"], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def filed(hindsight, rcll):
    """Two banks retained over HTTP and reorganised; the summary of the run."""
    for bank in ("team-a", "team-b"):
        hindsight.retain(bank, _texts(bank))
    before = hindsight.rows(NEVER_TOUCHED)
    (summary,) = rcll("reorganize")
    assert hindsight.rows(NEVER_TOUCHED) == before
    return summary


def test_walk_files_condenses_and_links(hindsight, filed, rcll):
    """Units are filed, an oversized room is condensed, tunnels join the banks; the second run writes nothing."""
    assert filed["status"] == "done"
    assert filed["kind"] == "hindsight"
    rooms = dict(hindsight.rows("SELECT room, count(*) FROM memory_units GROUP BY 1"))
    assert rooms["infrastructure"] >= 2 * len(HOSTS)
    assert rooms["auth"] == 2
    assert filed["closets"]["n_new"] > 0
    assert filed["tunnels"]["n_new"] > 0
    (again,) = rcll("reorganize")
    assert (again["loaded"]["n_written"], again["loaded"]["n_recorded"]) == (0, 0)
    for stage in ("closets", "tunnels"):
        assert (again[stage]["n_new"], again[stage]["n_gone"]) == (0, 0)
    assert hindsight.recall("team-a", "How long do OAuth2 tokens live?")[0].startswith("OAuth2")


def test_labels_survive_invalidate_and_revert(hindsight, filed):
    """A labelled unit can be invalidated and reverted through Hindsight's API; it keeps its labels."""
    statement = "SELECT id::text, room, hall, layer FROM memory_units WHERE text LIKE 'OAuth2%' AND bank_id = 'team-a'"
    (labelled,) = hindsight.rows(statement)
    assert labelled[1] == "auth"
    path = f"/banks/team-a/memories/{labelled[0]}"
    for state in ("invalidated", "valid"):
        answer = hindsight.call("PATCH", path, {"state": state})
        assert answer.status_code == httpx.codes.OK, answer.text
    assert hindsight.rows(statement) == [labelled]


def test_documents_and_banks_can_be_deleted(hindsight, filed):
    """Tunnels and closets do not stand in the way of a deletion, and go with what they were made of."""
    assert hindsight.rows("SELECT count(*) > 0 FROM tunnels") == [(True,)]
    (document,) = hindsight.rows(
        "SELECT u.document_id FROM tunnels t JOIN memory_units u ON u.id = t.source_unit_id"
        " WHERE u.bank_id = 'team-a' UNION SELECT u.document_id FROM tunnels t"
        " JOIN memory_units u ON u.id = t.target_unit_id WHERE u.bank_id = 'team-a' LIMIT 1"
    )
    answer = hindsight.call("DELETE", f"/banks/team-a/documents/{document[0]}")
    assert answer.status_code == httpx.codes.OK, answer.text
    answer = hindsight.call("DELETE", "/banks/team-a")
    assert answer.status_code == httpx.codes.OK, answer.text
    left = "SELECT count(*) FROM memory_units WHERE bank_id = 'team-a'"
    assert hindsight.rows(left) == [(0,)]
    assert hindsight.rows("SELECT count(*) FROM tunnels") == [(0,)]
    assert hindsight.rows("SELECT count(*) FROM closets WHERE bank_id = 'team-a'") == [(0,)]


def test_server_restarts_on_our_schema(hindsight, filed):
    """Hindsight's migrations at start pass over our columns and tables, and it goes on serving."""
    hindsight.stop()
    hindsight.start()
    hindsight.retain("team-a", {"later": "The certificate of the mail gateway is renewed every March."})
    assert hindsight.recall("team-a", "When is the certificate renewed?")
    fresh = "SELECT room, hall, layer FROM memory_units WHERE document_id = 'later'"
    assert hindsight.rows(fresh) == [("general", "fact", 2)]


def test_the_way_back_leaves_hindsight_as_it_was(hindsight, filed, rcll):
    """After migrate --down no object of ours is left, and Hindsight serves on."""
    columns = "SELECT count(*) FROM information_schema.columns WHERE column_name IN ('room', 'hall', 'layer')"
    assert hindsight.rows(columns)[0][0] > 0
    rcll("migrate", "--down", "--yes")
    assert hindsight.rows(columns) == [(0,)]
    ours = "SELECT count(*) FROM information_schema.tables WHERE table_name ~ '^(rcll_|tunnels|closets|closet_sources)'"
    assert hindsight.rows(ours) == [(0,)]
    assert hindsight.recall("team-a", "tea")
