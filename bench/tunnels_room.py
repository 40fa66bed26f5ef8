"""A room of any size for bench/tunnels: sentences about made-up matters, some of them known to several banks.

Each matter has a thing with a name of its own, a number and a place; its sentences are put in different words.
Most matters stand in one bank with one sentence. Vectors are wordllama's, turned into 384 dimensions, which
leaves every cosine as it was.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import wordllama
from wordllama import WordLlama

DIMS = 384
N_BANKS = 10
#: Units of a matter that several banks know, and the share of units that belong to such matters.
_TELLINGS, _SHARED = 4, 0.15

_THINGS = """alert|backup|batch job|broker|build|bucket|cache|certificate|cluster|collector|connector|console|consumer|contract|cron
job|dashboard|dataset|exporter|feed|filter|firewall|form|gateway|import|index|invoice run|landing page|ledger|lock|mailer|
mirror|mobile app|model|monitor|notebook|panel|parser|pipeline|plugin|policy|portal|printer|probe|proxy|queue|registry|replica|
report|router|runner|scanner|scheduler|schema|script|search|secret|sensor|shard|spool|stream|switch|table|template|token|
topic|tracker|trigger|volume|vault|view|warehouse|webhook|widget|worker""".replace("\n", "").split("|")
_TROUBLES = """stalls|leaks memory|drops messages|returns stale rows|rejects valid input|times out|fills its disk|restarts without
warning|doubles every entry|loses its lock|falls behind|ignores the new limit|mixes up time zones|sends empty files|blocks logins|
shows old prices|counts twice|forgets its settings|overheats|runs out of handles""".replace("\n", "").split("|")
_TOLD = """has been seen to hang|eats up all its RAM|swallows events|answers with outdated records|turns down correct data|takes too long
to reply|runs out of storage|reboots by itself|writes everything two times|is no longer exclusive|lags|does not respect the raised
ceiling|shifts hours|produces blank documents|keeps people from signing in|displays last year's rates|adds items up wrongly|comes up
with defaults|gets too warm|cannot open more sockets""".replace("\n", "").split("|")
_PLACES = """Aarhus|Bergen|Cadiz|Dublin|Essen|Faro|Ghent|Haifa|Izmir|Jena|Kiruna|Leeds|Malmo|Nantes|Oslo|Porto|Quito|Riga|Siena|Turku|Uppsala|
Vigo|Warsaw|Xanten|York|Zadar""".replace("\n", "").split("|")
_PEOPLE = """Ada|Bilal|Chen|Dora|Emre|Fatou|Goran|Hana|Ines|Jonas|Kofi|Lena|Milo|Nadia|Omar|Petra|Quinn|Rosa|Sami|Tove|Uma|Vera|
Wim|Xenia|Yuki|Zoe""".replace("\n", "").split("|")
_TEMPLATES = (
    "The {name} {thing} in {place} {trouble} once load passes {number} requests a minute.",
    "{person} found out why {name} {told}: beyond {number} calls per minute the {thing} gives up.",
    "Keep traffic to {name} under {number} a minute, else the {place} {thing} {trouble}.",
    "When the {thing} called {name} {told}, {person} throttles clients to {number} and waits.",
    "After the talk with {person}, the {place} team capped {name} at {number} per minute.",
    "{name} ({thing}, {place}): {told} under pressure; limit agreed with {person} is {number}.",
)
_PLAIN = (
    "{person} looks after the {thing} in {place} since week {number}.",
    "The {place} office renewed its {thing}; {person} signed for {number} euros.",
    "A new {thing} named {name} went live with {number} users.",
    "{name} is the {thing} that {trouble}, says {person}.",
    "In {place} the {thing} is checked every {number} days.",
    "Ask {person} before touching the {name} {thing}.",
    "The {thing} of the {place} branch {told} now and then.",
    "Version {number} of {name} brought a better {thing}.",
)


class Room(NamedTuple):
    """Units (frames.LINK_UNITS), their vectors, (n_units, DIMS) float32, and which matter each unit is about."""

    units: pl.DataFrame
    embeddings: np.ndarray
    matter: np.ndarray


def make_room(n_units: int, seed: int = 0) -> Room:
    """Write and embed a room; the same seed gives the same room."""
    rng = np.random.default_rng(seed)
    n_matters = int(n_units * _SHARED / _TELLINGS)
    texts = [text for matter in range(n_matters) for text in _tell(rng, matter, _TELLINGS, _TEMPLATES)]
    texts += [_tell(rng, n_matters + i, 1, _PLAIN)[0] for i in range(n_units - len(texts))]
    units = pl.DataFrame(
        {
            "unit_id": [f"{i:08x}" for i in rng.permutation(n_units)],
            "bank_id": [f"bank-{i}" for i in rng.integers(0, N_BANKS, n_units)],
            "text": texts,
            "matter": [i // _TELLINGS for i in range(n_matters * _TELLINGS)]
            + list(range(n_matters, n_units - n_matters * (_TELLINGS - 1))),
        }
    ).sort("unit_id")
    return Room(units.drop("matter"), embed(units["text"].to_list()), units["matter"].to_numpy())


def embed(texts: list[str]) -> np.ndarray:
    """Vectors of texts, (n_texts, DIMS) float32."""
    model = WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((DIMS, DIMS)))
    found = np.empty((len(texts), DIMS), dtype=np.float32)
    for i in range(0, len(texts), 8_192):
        vectors = np.asarray(model.embed(texts[i : i + 8_192], norm=True))
        found[i : i + 8_192] = vectors @ turn[: vectors.shape[1]].astype(np.float32)
    return found


def _tell(rng: np.random.Generator, matter: int, n_times: int, templates: tuple[str, ...]) -> list[str]:
    trouble = int(rng.integers(len(_TROUBLES)))
    words = {
        "name": _name(matter),
        "thing": _THINGS[rng.integers(len(_THINGS))],
        "place": _PLACES[rng.integers(len(_PLACES))],
        "number": int(rng.integers(2, 900)) * 5,
        "trouble": _TROUBLES[trouble],
        "told": _TOLD[trouble],
    }
    chosen = rng.permutation(len(templates))[:n_times]
    return [templates[i].format(person=_PEOPLE[rng.integers(len(_PEOPLE))], **words) for i in chosen]


def _name(number: int) -> str:
    """A pronounceable name; every third thing shares its name with others, as in life."""
    number = number if number % 3 else number % 997
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    parts: list[str] = []
    while number or len(parts) < 2:  # noqa: PLR2004
        number, place = divmod(number, len(syllables))
        parts.append(syllables[place])
    return "".join(parts).capitalize()
