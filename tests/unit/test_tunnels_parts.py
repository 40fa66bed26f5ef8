"""The parts of the tunnel stage that judge a pair: shared terms, surroundings, copies, choice, relationship."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcll.stages.tunnels.choice import Links, choose_links, mutual_links
from rcll.stages.tunnels.context import agreement
from rcll.stages.tunnels.copies import copied_pairs, families, fold_copies
from rcll.stages.tunnels.neighbours import Pairs
from rcll.stages.tunnels.params import TunnelParams
from rcll.stages.tunnels.relation import relate
from rcll.stages.tunnels.terms import weigh_terms

WORDS = st.lists(
    st.sampled_from(
        ["Kafka", "lag", "broker", "topics", "topic", "50,000", "16%", "lane_rates", "the", "of", "山", "x"]
    ),
    max_size=8,
)
TEXTS = st.lists(WORDS.map(" ".join), min_size=2, max_size=7)


def pairs_of(left, right):
    """Pairs without cosines."""
    return Pairs(np.array(left, dtype=np.intp), np.array(right, dtype=np.intp), np.zeros(len(left), np.float32))


def all_pairs(n):
    """Every pair of n units."""
    return pairs_of(*np.triu_indices(n, 1))


# terms


def terms_of(text):
    """The terms of a text of the words above, one by one."""
    known = {"kafka": ["kafka"], "lag": ["lag"], "broker": ["broke"], "topics": ["topic"], "topic": ["topic"]}
    known |= {"50,000": ["50", "000"], "lane_rates": ["lane", "rates", "=lane_rates"], "山": ["山"]}
    found = {term for word in text.lower().split() for term in known.get(word, [])}
    words = text.lower().split()
    for number, following in zip(words, [*words, ""][1:], strict=True):
        if number == "16%":
            found |= {"16", "#16%"}
        if number == "50,000" and following[:1].isalpha() and following != "山":
            found.add("#50000" + following.partition("_")[0])
    return found


@given(TEXTS)
@settings(max_examples=150)
def test_shared_rarity_agrees_with_a_loop(texts):
    """Shared rarity is the sum over shared rare terms, found one by one; the share is of all terms."""
    terms, pairs = weigh_terms(texts), all_pairs(len(texts))
    own = [terms_of(text) for text in texts]
    n_with = Counter(term for each in own for term in each)
    n = len(texts) + 20
    rarity = {term: math.log((n + 1) / (count + 1)) / math.log(n) for term, count in n_with.items()}
    shared, share = terms.shared(pairs.left, pairs.right), terms.share(pairs.left, pairs.right)
    for i, (one, other) in enumerate(combinations(own, 2)):
        both, either = sum(rarity[t] for t in one & other), sum(rarity[t] for t in one | other)
        assert shared[i] == pytest.approx(sum(rarity[t] for t in one & other if rarity[t] >= 0.4), abs=1e-4)
        assert share[i] == pytest.approx(both / either if either else 0, abs=1e-4)


def test_terms_that_tell_matters_apart():
    """Inflection, case, thousands separators and accents do not matter; function words and short ones do not count."""
    texts = [
        "Stop_confirm_seconds is 1,200.5 kg in São Paulo.",
        "stop_confirm_seconds: 1200.5kg at Sa\u0303o Paulo",
        "the of and",
        "山田さんが東京へ",
    ]
    terms = weigh_terms([*texts, "東京"])
    assert terms.in_common(np.array([0, 0, 3]), np.array([1, 2, 4]), 4) == [
        ["1,200.5 kg", "confirm", "paulo", "seconds"],
        [],
        ["京", "東"],
    ]


def test_terms_bring_few_together():
    """Texts meet over a term that few have, not over one that many have."""
    terms = weigh_terms(["kafka lag", "kafka 7731", "kafka 7731", "kafka", "lag"])
    left, right = terms.together(2)
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == [(0, 4), (1, 2)]


@pytest.mark.parametrize("texts", [[], [""], ["the", "!!"]])
def test_terms_of_nothing(texts):
    """No text, blank texts and texts without a term share nothing."""
    terms, pairs = weigh_terms(texts), all_pairs(len(texts))
    assert not terms.shared(pairs.left, pairs.right).any()
    assert not terms.share(pairs.left, pairs.right).any()
    assert not len(terms.together(8)[0])


# surroundings


def agreement_by_loop(pairs, alike, n_units, circles):
    """Overlap of the circles of mutual neighbours, and the best common friend, one by one."""
    weight = {}
    for left, right, value in zip(pairs.left.tolist(), pairs.right.tolist(), alike.tolist(), strict=True):
        weight[left, right] = weight[right, left] = value
    near = {u: sorted((-w, v) for (s, v), w in weight.items() if s == u) for u in range(n_units)}
    overlap = dict.fromkeys(weight, 0.0)
    for size in circles:
        best = {u: {v for _, v in near[u][:size]} for u in near}
        circle = {}
        for u in near:
            members = {u: 1.0} | {v: weight[u, v] for v in best[u] if u in best[v] and weight[u, v] > 0}
            circle[u] = {v: w / sum(members.values()) for v, w in members.items()}
        for one, other in overlap:
            common = sum(min(w, circle[other].get(v, 0)) for v, w in circle[one].items())
            overlap[one, other] += common / (2 - common) / len(circles)
    best = dict.fromkeys(overlap, 0.0)
    for a, b in overlap:
        both = [min(overlap[a, c], overlap[b, c]) for c in near if (a, c) in overlap and (b, c) in overlap]
        best[a, b] = max(both, default=0)
    return [(overlap[p] + best[p]) / 2 for p in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)]


@given(st.integers(2, 14), st.integers(0, 10_000))
@settings(max_examples=80)
def test_agreement_agrees_with_a_loop(n_units, seed):
    """Arrays and loop give the same agreement on any graph."""
    rng = np.random.default_rng(seed)
    every = all_pairs(n_units)
    kept = rng.random(len(every)) < 0.7
    pairs = Pairs(every.left[kept], every.right[kept], every.cosine[kept])
    alike = rng.permutation(len(pairs)).astype(np.float32) / 40 - 0.3
    found = agreement(pairs, alike, n_units, (2, 4))
    assert found.tolist() == pytest.approx(agreement_by_loop(pairs, alike, n_units, (2, 4)), abs=1e-4)


# copies


def test_copies_are_folded_by_bank_and_wording():
    """Case, punctuation and blanks make no other wording; blank and emoji-only texts are left out."""
    texts = ["Hands off!", "hands  OFF", "Hands off", "", " ", "😀", "Room 12", "Room 13"]
    copies = fold_copies(texts, np.array([0, 0, 1, 0, 1, 0, 0, 1]))
    assert copies.first.tolist() == [0, 2, 6, 7]
    assert copies.n_units.tolist() == [2, 1, 1, 1]
    assert copies.wording[0] == copies.wording[1]
    assert copies.wording[2] != copies.wording[3]
    assert copies.template[2] == copies.template[3]


def test_copies_in_thousands_of_banks():
    """One sentence in 5,000 banks is linked three times a unit at most, without looking at each pair alone."""
    n = 5_000
    copies = fold_copies(["the same"] * n, np.arange(n))
    left, right = copied_pairs(copies, np.arange(n), ~np.eye(n, dtype=bool), per_unit=3)
    assert np.bincount(np.concatenate([left, right]), minlength=n).tolist() == [3] * n
    assert (left < right).all()


def test_boilerplate_is_a_family_of_three():
    """Three units of one wording, template or retelling are boilerplate; two are not."""
    texts = ["Gate 1 shut", "Gate 2 shut", "Gate 3 shut", "Pump off", "Pump off", "Lamp on", "Lamp is on", "Lamps on"]
    copies = fold_copies(texts, np.array([0, 1, 2, 0, 1, 0, 1, 2]))
    family, boilerplate = families(copies, pairs_of([5, 6], [6, 7]), np.array([True, True]))
    assert boilerplate.tolist() == [True, True, True, False, False, True, True, True]
    assert len(set(family.tolist())) == 3


# choice


def test_only_mutual_matches_stay():
    """A hub that all others like best keeps its own best."""
    score = np.array([0.9, 0.8, 0.7, 0.6], dtype=np.float32)
    links = mutual_links(np.zeros(4, np.intp), np.arange(1, 5), score, 2)
    assert links.right.tolist() == [1, 2]
    assert links.rank.tolist() == [[1, 1], [2, 1]]


@given(st.integers(0, 1_000))
@settings(max_examples=60)
def test_choice_keeps_its_limits(seed):
    """No unit, pair of banks or family has more than its share, and the strongest link is always taken."""
    rng = np.random.default_rng(seed)
    bank, family = rng.integers(0, 4, 20), rng.integers(0, 12, 20)
    every = [(i, j) for i, j in combinations(range(20), 2) if bank[i] != bank[j] and rng.random() < 0.5]
    left, right = np.array(every, dtype=np.intp).reshape(-1, 2).T
    score = rng.random(len(left)).astype(np.float32)
    params = TunnelParams(per_unit=2, per_pair_of_banks=5)
    chosen = choose_links(Links(left, right, score, np.ones((len(left), 2), np.intp)), bank, family, params)
    ends = list(zip(chosen.left.tolist(), chosen.right.tolist(), strict=True))
    assert max(Counter(unit for pair in ends for unit in pair).values(), default=0) <= 2
    assert max(Counter(tuple(sorted((bank[a], bank[b]))) for a, b in ends).values(), default=0) <= 5
    kin = [(family[a], *sorted((bank[a], bank[b]))) for a, b in ends if family[a] == family[b]]
    assert len(kin) == len(set(kin))
    assert not len(score) or score.max() in chosen.score


# relationship


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Never deploy on Friday.", "never deploy on a Friday!", ("duplicate", "same words")),
        ("Deploys need an approval.", "Deploys don’t need an approval.", ("contradicts", "negation")),
        ("Der Zugang ist frei.", "Der Zugang ist nicht frei.", ("contradicts", "negation")),
        ("The gateway is never not logged.", "The gateway is logged.", ("duplicate", "same words")),
        ("Ingress waits 60 seconds.", "Ingress waits 30 seconds.", ("contradicts", "number")),
        ("VAT is 19 % here.", "VAT is 21 % here.", ("contradicts", "number")),
        ("Build 4711 broke.", "Build 4712 broke.", ("same_concept", "same words but for numbers")),
        ("Due on 4 March.", "Due on 5 March.", ("same_concept", "same words but for numbers")),
        ("It took 2 days and 3 hours.", "It took 4 days and 5 hours.", ("same_concept", "same words but for numbers")),
        (
            "Redis holds the session cache.",
            "Redis holds the session cache; Sentinel promotes a replica during failover.",
            ("extends", "superset"),
        ),
        (
            "Redis holds the session cache.",
            "Redis no longer holds the session cache; Sentinel promotes a replica during failover.",
            ("same_concept", "mutual neighbours"),
        ),
        ("Redis holds it.", "Redis holds it, Sentinel promotes a replica.", ("same_concept", "mutual neighbours")),
        ("Tokens end after 15 minutes.", "JWTs live a quarter of an hour.", ("same_concept", "mutual neighbours")),
    ],
)
def test_relationship(one, other, expected):
    """A relationship other than same_concept is said only where the wording leaves no doubt, either way round."""
    assert relate(one, other, is_series=False) == expected
    assert relate(other, one, is_series=False) == expected


def test_lines_of_a_log_do_not_contradict():
    """Of many units with the same words, a changed number is another event."""
    assert relate("Backup took 12 minutes.", "Backup took 15 minutes.", is_series=True).relationship == "same_concept"
