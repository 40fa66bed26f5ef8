"""Rules and texts to measure the classifier with: nothing here is meant to classify well.

``rules(n)`` are ordered as a real taxonomy is: phrases first, words after them, weak words last, in each of these the
rooms one after another; every tenth has an ``unless``. Three kinds of texts: ``typical`` (six of ten hit a room rule),
``diverse`` (examples of all rules, evenly), ``tail`` (one of 200 is long, up to 100 kB).
"""

import random

import polars as pl

from rcll.taxonomy import Rule
from rcll.taxonomy.dialect import translate

ROOMS = {
    "auth": ["login", "password", "token", "sso", "session cookie", "oauth2"],
    "pipeline": ["pipeline", "build job", "runner", "workflow", "artifact", "nightly build"],
    "infrastructure": ["server", "kubernetes", "dns", "load balancer", "firewall", "disk"],
    "deployment": ["deploy", "rollback", "release", "canary", "staging", "feature flag"],
    "schema": ["migration", "column", "foreign key", "index", "postgres", "table"],
    "api": ["endpoint", "webhook", "graphql", "rate limit", "payload", "status code"],
    "ui": ["button", "dark mode", "layout", "modal", "css", "sidebar"],
    "tax": ["vat", "invoice", "fiscal year", "withholding", "depreciation", "tax office"],
    "hr": ["onboarding", "payroll", "vacation", "interview", "salary", "probation"],
    "legal": ["contract", "nda", "clause", "liability", "lawsuit", "copyright"],
    "compliance": ["gdpr", "audit", "retention policy", "iso 27001", "regulator", "pii"],
    "monitoring": ["alert", "grafana", "latency", "dashboard", "pager", "uptime"],
    "agent": ["prompt", "llm", "context window", "embedding", "tool call", "subagent"],
}
HALLS = {
    "warning": ["never", "do not", "danger", "must not", "forbidden", "avoid"],
    "decision": ["decided", "approved", "agreed on", "rejected", "chose", "signed off"],
    "procedure": ["first stop", "step by step", "then restart", "checklist", "runbook", "how to"],
    "event": ["outage", "crashed", "last week", "launched", "incident", "was fixed"],
    "preference": ["prefers", "likes", "would rather", "favourite", "always wants", "dislikes"],
    "discovery": ["found that", "turned out", "root cause", "measured", "learned", "it seems that"],
}
PLAIN = [
    "{who} moved the desk to the window of room {n}",
    "The numbers of {city} look better than {who} thought",
    "About {n} people in {city} work on {name} part time",
    "{name} is written in {city} and began in 20{d}{d}",
    "The coffee machine on floor {d} makes a noise, says {who}",
    "{who} speaks French and a little Polish",
    "The partner sent {n} files with the new list for {name}",
    "A usual batch of {name} takes {n} minutes on the small machine",
    "{who} asked for the same report in English",
    "The vendor gives a discount above {n} pieces of {name}",
]
ABOUT = [
    "The {term} of {name} changed {n} times this year",
    "{who} looks after the {term} in {city}",
    "Since {city} the {term} needs {n} minutes",
    "{name} has no {term} yet, {who} says",
]
SAYS = ["{who} {term} it for {name}", "{term}: {name} in {city}, {n} of them", "In {city} {term} {name} again"]
WHO = ["Anna", "Bo", "Carla", "Deniz", "Farid", "Grace", "Hiro", "Lena", "Marek", "Olu", "Zoë"]
CITIES = ["Lyon", "Oslo", "Austin", "Madrid", "Osaka", "Dublin", "Kraków"]
SYLLABLES = [
    "ba",
    "cor",
    "den",
    "fi",
    "gra",
    "hol",
    "ki",
    "lum",
    "mar",
    "no",
    "pel",
    "qua",
    "ri",
    "sen",
    "tor",
    "ul",
    "wex",
]


def rules(n_rules: int, seed: int = 1) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return so many rules, two thirds of them for rooms; those beyond the known terms have invented words."""
    chance = random.Random(seed)
    n_rooms = 2 * n_rules // 3
    return _side("room", ROOMS, n_rooms, chance), _side("hall", HALLS, n_rules - n_rooms, chance)


def _side(dimension: str, known: dict[str, list[str]], n_rules: int, chance: random.Random) -> tuple[Rule, ...]:
    terms = [(label, term) for place in range(6) for label, words in known.items() for term in words[place : place + 1]]
    labels = list(known)
    while len(terms) < n_rules:
        word = "".join(chance.choices(SYLLABLES, k=chance.randint(2, 4)))
        terms.append(
            (labels[len(terms) % len(labels)], chance.choice([word, word, f"{word} {chance.choice(SYLLABLES)}ing"]))
        )
    ranked = sorted(
        terms[:n_rules], key=lambda item: ((0 if " " in item[1] else chance.choice([1, 1, 2])), labels.index(item[0]))
    )
    return tuple(_rule(dimension, number, label, term, chance) for number, (label, term) in enumerate(ranked))


def _rule(dimension: str, number: int, label: str, term: str, chance: random.Random) -> Rule:
    pattern = chance.choice([rf"\b{term}s?\b", rf"\b{term}\b", rf"\b{term}(?:ed|ing|er)?\b", rf"\b{term}\w*\b"])
    unless = translate(r"\b(?:osaka|carousel|oak)\b") if chance.random() < 0.1 else None
    return Rule(
        id=f"{dimension}.{number}",
        dimension="room" if dimension == "room" else "hall",
        label=label,
        pattern=translate(pattern),
        unless=unless,
        tier="specific" if " " in term else "word",
        hits=(term,),
        source=pattern,
    )


def typical(n_texts: int, seed: int = 2) -> pl.Series:
    """Return short texts of one to four sentences, about 150 bytes each."""
    chance = random.Random(seed)
    return pl.Series("text", [_text(chance) for _ in range(n_texts)])


def diverse(n_texts: int, sides: tuple[tuple[Rule, ...], ...], seed: int = 3) -> pl.Series:
    """Return typical texts with examples of up to four rules put in, all rules alike."""
    chance = random.Random(seed)
    examples = [rule.hits[0] for side in sides for rule in side]
    texts: list[str] = []
    for _ in range(n_texts):
        words = _text(chance).split(" ")
        for _ in range(chance.randint(0, 4)):
            words.insert(chance.randrange(len(words)), chance.choice(examples))
        texts.append(" ".join(words))
    return pl.Series("text", texts)


def tail(n_texts: int, seed: int = 4) -> pl.Series:
    """Return typical texts, one of 200 of them long: up to 100 kB."""
    chance = random.Random(seed)
    texts = [_text(chance) for _ in range(n_texts)]
    for _ in range(n_texts // 200):
        place, length = chance.randrange(n_texts), min(100_000, int(600 * chance.paretovariate(0.8)))
        while len(texts[place]) < length:
            texts[place] += " " + _fill(chance.choice(PLAIN), chance) + "."
    return pl.Series("text", texts)


def _text(chance: random.Random) -> str:
    sentences = [_fill(chance.choice(PLAIN), chance) for _ in range(chance.choice([1, 1, 2, 3]))]
    if chance.random() < 0.6:
        sentences.append(_fill(chance.choice(ABOUT), chance, ROOMS))
    if chance.random() < 0.4:
        sentences.append(_fill(chance.choice(SAYS), chance, HALLS))
    chance.shuffle(sentences)
    return ". ".join(sentences) + "."


def _fill(sentence: str, chance: random.Random, terms: dict[str, list[str]] | None = None) -> str:
    return sentence.format(
        who=chance.choice(WHO),
        city=chance.choice(CITIES),
        n=chance.randint(2, 9999),
        d=chance.randint(1, 9),
        name="".join(chance.choices(SYLLABLES, k=2)),
        term=chance.choice(chance.choice(list(terms.values()))) if terms else "",
    )
