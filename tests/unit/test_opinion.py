"""The second opinion: what it learns from, what it doubts, and what it leaves alone."""

import numpy as np
import polars as pl
import pytest

from rcll.analyst.layout import list_snapshots
from rcll.analyst.opinion import second_opinion
from rcll.errors import InputError
from rcll.frames import TEXTS
from rcll.stages.opinion import (
    DOUBTS,
    OPINIONS,
    ROOMED,
    OpinionParams,
    doubt_rooms,
    learn_rooms,
    spread,
    weigh_doubts,
    words_for_rules,
)
from rcll.taxonomy import load_taxonomy
from tests.unit.palace import unit, write_snapshot

SNAPSHOT = "20260601T023000000Z"
TOKEN = "The login token of the nightly job has expired"


def _clouds(rooms, seed=0):
    """Units with vectors around one direction a room: row i belongs to unit i."""
    rng = np.random.default_rng(seed)
    axes = {room: np.eye(8, dtype=np.float32)[n] for n, room in enumerate(sorted(set(rooms)))}
    vectors = np.array([axes[room] for room in rooms]) + rng.normal(0, 0.1, (len(rooms), 8))
    units = pl.DataFrame({"unit_id": [f"u{n:03d}" for n in range(len(rooms))], "room": rooms}, schema=ROOMED)
    return units, vectors.astype(np.float32)


def _learned(n=15):
    return learn_rooms(*_clouds(["auth", "tax"] * n))


def test_stray_is_doubted_and_its_likes_are_named():
    """Of units that stand among another room's vectors the room is proposed, with the most similar sure unit."""
    units, vectors = _clouds(["auth", "tax"] * 5, seed=1)
    moved = units.with_columns(room=pl.when(pl.col("unit_id") == "u003").then(pl.lit("auth")).otherwise("room"))
    doubts = doubt_rooms(_learned(), moved, vectors)
    assert doubts.schema == DOUBTS
    (doubt,) = doubts.iter_rows(named=True)
    assert (doubt["unit_id"], doubt["room"], doubt["proposed_room"]) == ("u003", "auth", "tax")
    assert doubt["likelihood"] > 0.9
    assert int(doubt["alike"][1:]) % 2 == 1  # every second sure unit is one of tax


def test_without_a_vector_there_is_no_doubt():
    """A missing vector, of NaN or of zeros, is no neighbourhood; without units there are no doubts."""
    units, vectors = _clouds(["auth", "tax"], seed=1)
    vectors[0], vectors[1] = np.nan, 0
    swapped = units.with_columns(room=pl.Series(["tax", "auth"]))
    assert doubt_rooms(_learned(), swapped, vectors).is_empty()
    assert doubt_rooms(_learned(), swapped[:0], vectors[:0]).schema == DOUBTS


@pytest.mark.parametrize("rooms", [["auth", "tax"] * 9, ["auth"] * 40, []])
def test_too_little_to_learn_from(rooms):
    """Fewer than twenty units, or a single room, teach nothing."""
    units, vectors = _clouds(rooms) if rooms else (pl.DataFrame(schema=ROOMED), np.empty((0, 8), np.float32))
    assert learn_rooms(units, vectors) is None


def test_missing_vectors_do_not_count_as_sure():
    """Twenty sure units of which one has no vector are nineteen."""
    units, vectors = _clouds(["auth", "tax"] * 10)
    assert learn_rooms(units, vectors) is not None
    vectors[7] = np.nan
    assert learn_rooms(units, vectors) is None


def test_opinion_does_not_depend_on_blocks_or_order():
    """Units judged one by one, or in another order, get the same doubts as all at once."""
    units, vectors = _clouds(["auth", "tax"] * 30, seed=2)
    units = units.with_columns(room=pl.Series(["auth"] * 60))
    learned = _learned()
    whole = doubt_rooms(learned, units, vectors)
    order = np.random.default_rng(3).permutation(len(units))
    single = pl.concat([doubt_rooms(learned, units[[n]], vectors[[n]]) for n in order.tolist()]).sort("unit_id")
    assert single.drop("likelihood").equals(whole.drop("likelihood"))
    assert np.allclose(single["likelihood"], whole["likelihood"], atol=1e-6)


def test_sure_units_are_spread_evenly():
    """More sure units than wanted are thinned over their ids; few stay as they are."""
    units, _ = _clouds(["auth"] * 10)
    assert spread(units.reverse(), OpinionParams(most_sure=4))["unit_id"].to_list() == ["u000", "u003", "u006", "u009"]
    assert spread(units, OpinionParams(most_sure=10)).equals(units)
    assert spread(units[:0], OpinionParams()).is_empty()


def _doubts(*rows):
    return pl.DataFrame(
        [(f"u{n}", room, "auth", likelihood, "s") for n, (room, likelihood, _) in enumerate(rows)],
        schema=DOUBTS,
        orient="row",
    ), pl.DataFrame([(f"u{n}", text) for n, (*_, text) in enumerate(rows)], schema=TEXTS, orient="row")


def test_rules_back_a_doubt():
    """A rule of the proposed room makes a doubt count early; without one it has to be likely, in the fallback room."""
    doubts, texts = _doubts(
        ("api", 0.55, TOKEN), ("api", 0.95, "Bread and butter"), ("general", 0.65, "Bread"), ("general", 0.5, None)
    )
    opinions = weigh_doubts(doubts, texts, load_taxonomy())
    assert opinions.schema == OPINIONS
    assert opinions["unit_id"].to_list() == ["u0", "u2"]
    assert opinions["rule"][0].startswith("auth.")
    assert opinions["rule"][1] is None


def test_only_the_likeliest_doubts_are_read():
    """A bank of doubts costs no more than so many texts."""
    doubts, texts = _doubts(*[("api", 0.5 + n / 100, TOKEN) for n in range(10)])
    opinions = weigh_doubts(doubts, texts, load_taxonomy(), OpinionParams(most_doubts=3))
    assert opinions["unit_id"].to_list() == ["u9", "u8", "u7"]


def test_words_are_those_of_the_proposed_room():
    """A word of doubted units is proposed for the room where its sure holders stand, and for no other."""
    texts_of_doubts = ("Our turnstile beeps", "My turnstile is red", "One turnstile squeaks")
    doubts, texts = _doubts(*[("api", 0.9, text) for text in texts_of_doubts])
    opinions = doubts.with_columns(rule=pl.lit(None, pl.String))
    sure = pl.DataFrame({"unit_id": ["s1", "s2", "s3"], "room": ["auth", "auth", "tax"]}, schema=ROOMED)
    said = ["A turnstile needs a badge", "The turnstile reads badges", "Excise duty on mead"]
    both = pl.concat([texts, sure.select("unit_id", text=pl.Series(said))])
    words = words_for_rules(opinions, sure, both)
    assert ("turnstile", 3, 2, "auth") in list(words.select("word", "n_units", "n_decided", "room").iter_rows())
    assert set(words["room"]) == {"auth"}
    assert words_for_rules(opinions.with_columns(proposed_room=pl.lit("tax")), sure, both).is_empty()
    assert words_for_rules(opinions[:0], sure[:0], both).is_empty()


def _palace():
    """A bank of sure units in two clouds, and a stray that only a rule of words filed."""
    units, vectors = _clouds(["auth", "tax"] * 15)
    rows = [
        unit(n, room=room, text=TOKEN if room == "auth" else "Excise duty on mead", room_tier="specific")
        for n, room in enumerate(units["room"])
    ]
    rows[4] |= {"room": "tax", "room_tier": "word"}
    rows[5] |= {"room_source": "explicit", "room": "auth"}  # somebody's word is never doubted
    embeddings = [
        {"unit_id": row["unit_id"], "bank_id": "alice", "embedding": vector.tolist()}
        for row, vector in zip(rows, vectors, strict=True)
    ]
    return {"units": [*rows, unit(90, "bob"), unit(91, room_tier="word")], "embeddings": embeddings[::-1]}


def test_opinion_of_a_snapshot(tmp_path):
    """Explicit and specific labels teach and are not doubted; the rest is, with its text; vectors lie in any order."""
    write_snapshot(tmp_path, SNAPSHOT, _palace(), has_embeddings=True)
    (snapshot,) = list_snapshots(tmp_path)
    found = second_opinion(snapshot, "alice", load_taxonomy())
    assert (found.n_units, found.n_sure, found.n_learned) == (31, 29, 29)
    assert found.opinions.select("unit_id", "room", "proposed_room", "text").rows() == [("u004", "tax", "auth", TOKEN)]
    assert found.opinions["rule"][0].startswith("auth.")
    other = second_opinion(snapshot, "bob", load_taxonomy())
    assert (other.n_units, other.n_sure, other.n_learned, len(other.opinions)) == (1, 0, 0, 0)


def test_snapshot_that_cannot_tell(tmp_path):
    """No vectors, or a column that an older rcll did not write, is said in one line."""
    home = write_snapshot(tmp_path, SNAPSHOT, _palace(), has_embeddings=False)
    (snapshot,) = list_snapshots(home)
    with pytest.raises(InputError, match="holds no embeddings; expected them"):
        second_opinion(snapshot, "alice", load_taxonomy())
    old = {"units": [{"unit_id": "u1", "bank_id": "alice", "room": "auth"}]}
    (snapshot,) = list_snapshots(write_snapshot(tmp_path / "old", SNAPSHOT, old, has_embeddings=True))
    with pytest.raises(InputError, match="lacks column room_source of units"):
        second_opinion(snapshot, "alice", load_taxonomy())
