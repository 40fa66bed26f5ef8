"""A second opinion on rooms: units that stand elsewhere than those that read like them, by their embeddings.

The rules look at words; this looks at vectors, and learns rooms from labels that can be trusted: explicit ones and
those of specific rules. It only lists what deserves a look (docs/analysts.md has how often it is right); halls are left
out, since vectors tell topics apart and not kinds of knowledge (right in one of five cases at best).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from rcll.frames import DEFAULT_ROOM, LABELS, TEXTS, require_schema
from rcll.stages.explain import explain_text
from rcll.stages.similarity import Floats, unit_rows
from rcll.stages.suggest import SUGGESTIONS, SuggestParams, suggest_rules
from rcll.taxonomy.model import Taxonomy

#: A unit and the room in which it stands.
ROOMED = pl.Schema({"unit_id": pl.String, "room": pl.String})

#: Units that may be misfiled. ``likelihood`` is the model's for ``proposed_room``, ``alike`` the most similar of the
#: units that it learned this room from.
DOUBTS = pl.Schema(ROOMED | {"proposed_room": pl.String, "likelihood": pl.Float64, "alike": pl.String})

#: Doubts worth a look, most likely first; ``rule`` is a rule of the proposed room that matches the text too, behind
#: the one that fired or blocked, null where the neighbours speak alone.
OPINIONS = pl.Schema(DOUBTS | {"rule": pl.String})


@dataclass(frozen=True, slots=True)
class OpinionParams:
    """When an opinion is given.

    Attributes:
        least_sure: units with labels to learn from that a bank needs.
        most_sure: units learned from at most, evenly spread; more hardly change the model.
        backed: likelihood from which on a doubt counts that a rule of the proposed room backs.
        alone: likelihood from which on it counts without, for a unit in the fallback room: where a rule has fired, the
            neighbours alone are wrong more often than the rule (bench/opinion.py).
        most_doubts: most likely doubts whose texts are looked into.
    """

    least_sure: int = 20
    most_sure: int = 20_000
    backed: float = 0.5
    alone: float = 0.6
    most_doubts: int = 2_000


@dataclass(frozen=True, slots=True)
class Learned:
    """What the sure units of a bank teach.

    Attributes:
        sure: ROOMED, row i belongs to row i of ``rows``.
        rows: (n_sure, n_dims) float32, centred, of length one.
        centre: (n_dims,) mean of the sure units' directions, which says nothing about rooms.
    """

    sure: pl.DataFrame
    rows: Floats
    centre: Floats
    model: LogisticRegression


def spread(sure: pl.DataFrame, params: OpinionParams) -> pl.DataFrame:
    """Sure units to learn from: at most ``most_sure``, evenly spread over the ids, sorted by id."""
    return require_schema(sure, ROOMED, "sure").sort("unit_id").gather_every(-(-len(sure) // params.most_sure) or 1)


def learn_rooms(sure: pl.DataFrame, embeddings: Floats, params: OpinionParams | None = None) -> Learned | None:
    """Learn what the rooms of a bank look like.

    Logistic regression on centred vectors, each room of the same weight: on the labelled sets it was right more often
    than the nearest five or ten units (bench/opinion.py).

    Args:
        sure: ROOMED, units whose rooms can be trusted, sorted by id.
        embeddings: (n_sure, n_dims) float32, row i belongs to unit i; NaN where there is none.
        params: how many units are needed.

    Returns:
        None where the bank has too few such units with a vector, or all in one room.
    """
    params = params or OpinionParams()
    rows = unit_rows(embeddings)
    present = np.asarray(rows.any(axis=1))
    sure, rows = require_schema(sure, ROOMED, "sure").filter(pl.Series(present)), rows[present]
    if len(sure) < params.least_sure or sure["room"].n_unique() < 2:  # noqa: PLR2004 - nothing to choose from
        return None
    centre = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    rows = _centred(rows, centre)
    model = LogisticRegression(C=10, class_weight="balanced", max_iter=500)
    with threadpool_limits(1):  # sums come out the same on any machine
        model.fit(rows, sure["room"].to_numpy())
    return Learned(sure, rows, centre, model)


def doubt_rooms(
    learned: Learned, units: pl.DataFrame, embeddings: Floats, params: OpinionParams | None = None
) -> pl.DataFrame:
    """Find units that the model would file elsewhere.

    Args:
        learned: as :func:`learn_rooms` gives it.
        units: ROOMED, other units of the same bank.
        embeddings: (n_units, n_dims) float32, row i belongs to unit i; units without a vector are never doubted.
        params: from which likelihood on.

    Returns:
        DOUBTS in the order of ``units``.
    """
    params = params or OpinionParams()
    rows = _centred(unit_rows(embeddings), learned.centre)
    if units.is_empty():
        return pl.DataFrame(schema=DOUBTS)
    with threadpool_limits(1):
        likelihoods = learned.model.predict_proba(rows)
    doubts = require_schema(units, ROOMED, "units").with_columns(
        proposed_room=pl.Series(learned.model.classes_[likelihoods.argmax(axis=1)], dtype=pl.String),
        likelihood=pl.Series(likelihoods.max(axis=1).astype(np.float64)),
    )
    is_doubted = (doubts["proposed_room"] != doubts["room"]).fill_null(value=True) & pl.Series(
        np.asarray(rows.any(axis=1))
    )
    is_doubted &= doubts["likelihood"] >= min(params.backed, params.alone)
    doubts = doubts.filter(is_doubted)
    alike = _most_alike(learned, doubts["proposed_room"], rows[is_doubted.to_numpy()])
    return doubts.with_columns(alike=pl.Series(alike, dtype=pl.String)).select(DOUBTS.names())


def weigh_doubts(
    doubts: pl.DataFrame, texts: pl.DataFrame, taxonomy: Taxonomy, params: OpinionParams | None = None
) -> pl.DataFrame:
    """Keep the doubts that a rule backs, and those that are likely enough without one.

    Args:
        doubts: DOUBTS.
        texts: frames.TEXTS of at least these units; a null text backs nothing.
        taxonomy: the rules.
        params: from which likelihood on.

    Returns:
        OPINIONS, those that a rule backs first, then by likelihood, then by id.
    """
    params = params or OpinionParams()
    likeliest = require_schema(doubts, DOUBTS, "doubts").sort("likelihood", "unit_id", descending=[True, False])
    read = likeliest.head(params.most_doubts).join(texts, on="unit_id", how="left", maintain_order="left")
    rules = [_backing(text, room, taxonomy) for text, room in read.select("text", "proposed_room").iter_rows()]
    opinions = read.with_columns(rule=pl.Series(rules, dtype=pl.String))
    is_backed = pl.col("rule").is_not_null() & (pl.col("likelihood") >= params.backed)
    is_undecided = (pl.col("room").fill_null(DEFAULT_ROOM) == DEFAULT_ROOM) & (pl.col("likelihood") >= params.alone)
    return (
        opinions.filter(is_backed | is_undecided)
        .sort(pl.col("rule").is_null(), -pl.col("likelihood"), pl.col("unit_id"))
        .select(OPINIONS.names())
    )


def words_for_rules(opinions: pl.DataFrame, sure: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """Propose words by which rules could file the doubted units where their neighbours stand.

    Args:
        opinions: OPINIONS.
        sure: ROOMED, the units learned from.
        texts: frames.TEXTS of both.

    Returns:
        suggest.SUGGESTIONS: words of doubted units whose sure holders mostly stand in the room proposed; best first.
    """
    doubted = opinions.select("unit_id", room=pl.col("proposed_room"), room_rule=pl.lit(None, pl.String))
    known = sure.select("unit_id", "room", room_rule=pl.lit("sure"))
    both = pl.concat([doubted, known]).join(texts, on="unit_id", how="inner", maintain_order="left")
    if both.is_empty():
        return pl.DataFrame(schema=SUGGESTIONS)
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in LABELS.items() if name not in both.columns]
    labels = both.with_columns(missing).select(LABELS.names())
    found = suggest_rules(both.select(TEXTS.names()), labels, SuggestParams(min_units=2))
    proposed = doubted.select("unit_id", proposed="room")
    held = found.with_row_index("number").explode("examples", empty_as_null=True, keep_nulls=True)
    told = held.join(proposed, left_on="examples", right_on="unit_id").filter(pl.col("room") == pl.col("proposed"))
    return found.with_row_index("number").join(told, on="number", how="semi", maintain_order="left").drop("number")


def _centred(rows: Floats, centre: Floats) -> Floats:
    """Rows less the centre, of length one again; missing ones stay zero."""
    return unit_rows(np.where(rows.any(axis=1, keepdims=True), rows - centre, np.float32(0)))


def _most_alike(learned: Learned, rooms: pl.Series, rows: Floats) -> list[str]:
    """Of the units learned from, the most similar one of the given room for each row."""
    found = np.empty(len(rows), dtype=object)
    ids, teachers = learned.sure["unit_id"].to_numpy(), learned.sure["room"].to_numpy()
    wanted: npt.NDArray[np.object_] = rooms.to_numpy()
    for room in rooms.unique().to_list():
        mine, theirs = wanted == room, teachers == room
        found[mine] = ids[theirs][(rows[mine] @ learned.rows[theirs].T).argmax(axis=1)]
    return found.tolist()


def _backing(text: str | None, room: str, taxonomy: Taxonomy) -> str | None:
    """Id of a rule of the room that matches the text, None if there is none."""
    if not text:
        return None
    decision = next(each for each in explain_text(text, taxonomy).decisions if each.dimension == "room")
    matches = [*decision.next, *decision.blocked] + ([decision.fired] if decision.fired else [])
    return next((match.rule for match in matches if match.label == room), None)
