"""Retain, recall and a run of the flow on one bank at once."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.service.calls import recall, retain

N_CLIENTS, N_CALLS = 4, 15
TOKEN = "OAuth2 access token of client {client} expires after {n} minutes."


def test_retain_recall_and_reorganise_at_once(own_template, clone, serve, tmp_path):
    """No call fails, each client finds at once what it has stored, nothing is lost, and the labels stay in order."""
    database = clone(own_template)
    client = serve(database)
    retain(client, "team", *({"content": TOKEN.format(client="none", n=n)} for n in range(100)))
    reorganise = subprocess.Popen(
        [Path(sys.executable).parent / "rcll", "reorganize", "--json"],
        env=os.environ | {"RCLL_DATABASE_URL": database.url, "RCLL_HOME": str(tmp_path), "RCLL_CLOSET_THRESHOLD": "20"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def talk(number: int) -> list[str]:
        ids = []
        with httpx.Client(base_url=client.base_url, timeout=60) as own:
            while reorganise.poll() is None or len(ids) < N_CALLS:
                text = TOKEN.format(client=number, n=len(ids))
                explicit = {"room": "ui", "layer": 1} if len(ids) % 3 == 0 else {}
                (unit,) = retain(own, "team", {"content": text, **explicit})
                ids.append(unit["id"])
                found = recall(own, "team", text, room=unit["room"], limit=50, max_layer=3)["results"]
                shown = [each["text"] for result in found for each in (result, *result.get("folded", []))]
                assert text in shown
        return ids

    with ThreadPoolExecutor(N_CLIENTS) as threads:
        ids = [unit_id for made in threads.map(talk, range(N_CLIENTS)) for unit_id in made]
    _, err = reorganise.communicate()
    assert reorganise.returncode == 0, err
    with database.connect() as conn:
        assert conn.execute("SELECT count(*) FROM memory_units").fetchone() == (100 + len(ids),)
        wrong = conn.execute(
            "SELECT u.id FROM memory_units u LEFT JOIN rcll_labels l ON l.unit_id = u.id"
            " WHERE (u.room, u.hall, u.layer) IS DISTINCT FROM (l.room, l.hall, l.layer)"
        ).fetchall()
        assert wrong == []
        kept = conn.execute(
            "SELECT count(*) FROM rcll_labels WHERE room_source = 'explicit' AND room = 'ui' AND layer = 1"
        ).fetchone()
        assert kept == (sum(-(-len(made) // 3) for made in _by_client(conn)),)


def _by_client(conn):
    """Texts of each client."""
    rows = conn.execute("SELECT text FROM memory_units WHERE text LIKE 'OAuth2 access token of client%'").fetchall()
    return [[text for (text,) in rows if f"client {number} " in text] for number in range(N_CLIENTS)]


def test_one_document_from_many_at_once(client, bank):
    """Calls that replace the same document follow one another: the last one's texts stand, and no other's."""

    def send(number: int) -> None:
        with httpx.Client(base_url=client.base_url, timeout=60) as own:
            texts = [f"Version {number}, part {part}." for part in range(3)]
            retain(own, bank, *({"content": text, "document_id": "d"} for text in texts))

    with ThreadPoolExecutor(N_CLIENTS) as threads:
        list(threads.map(send, range(12)))
    found = recall(client, bank, "version", limit=50)["results"]
    assert len(found) == 3
    assert len({result["text"].split(",")[0] for result in found}) == 1
