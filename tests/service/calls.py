"""Calls that the tests make often."""

from typing import Any

import httpx


def retain(client: httpx.Client, bank: str, *items: dict[str, Any]) -> list[dict[str, Any]]:
    """Retain items and return their units."""
    answer = client.post(f"/banks/{bank}/retain", json={"items": list(items)})
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.json()["units"]


def recall(client: httpx.Client, bank: str, query: str, **asked: Any) -> dict[str, Any]:
    """Recall and return the answer."""
    answer = client.get(f"/banks/{bank}/recall", params={"query": query, **asked})
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.json()
