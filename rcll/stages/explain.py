"""Why a text gets its labels: the rule, its words and their place, and the rules that would have come next."""

import re
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from rcll.stages.classify import FALLBACKS, language_of
from rcll.taxonomy.dialect import CAPS, python
from rcll.taxonomy.match import SHORT, head_of, matches, nth_match, program_for
from rcll.taxonomy.model import DIMENSIONS, Dimension, Rule, Taxonomy
from rcll.taxonomy.normalise import normalise_texts

#: Rules that are named beside the one that fired.
_MOST_NEXT = 5
#: Characters shown on each side of a keyword.
_AROUND = 40


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that the text matches.

    Attributes:
        keyword: the words that it matched, as the rule saw them.
        start: where they begin in the text as given; None where cleaning has made them unrecognisable.
        end: where they end.
        blocked_by: the words that kept the rule from firing, None if it may fire.
    """

    rule: str
    label: str
    tier: str
    source: str
    keyword: str
    start: int | None
    end: int | None
    blocked_by: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """How one dimension was decided.

    Attributes:
        label: room, hall or layer.
        fired: the first rule that matches; None at the fallback.
        next: rules behind it that match too, in order.
        blocked: rules before it that match, but are blocked.
    """

    dimension: str
    label: str
    fired: Match | None
    next: tuple[Match, ...]
    blocked: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a text gets its labels.

    Attributes:
        language: code of the language found, ``other`` if the taxonomy has no rules for it, None without letters.
    """

    text: str
    language: str | None
    decisions: tuple[Decision, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the text."""
        found = asdict(self)
        del found["text"]
        return found

    def lines(self) -> list[str]:
        """Return the explanation as lines for a terminal."""
        language = {"other": "one without rules of its own (unsupported)", None: "none found"}
        out = [f"language: {language.get(self.language, self.language)}"]
        for decision in self.decisions:
            note = " (with layer rules on)" if decision.dimension == "layer" else ""
            out.append(f"{decision.dimension}: {decision.label}{note}")
            if decision.fired is None:
                out.append("    no rule matches: the fallback")
            else:
                out.append(f"    rule {_line(decision.fired)}")
                out.append(f"    in: {_excerpt(self.text, decision.fired)}")
            out += [f"    blocked by '{match.blocked_by}': {_line(match)}" for match in decision.blocked]
            out += [f"    next: {match.label} by {_line(match)}" for match in decision.next]
        return out


def explain_text(text: str, taxonomy: Taxonomy) -> Explanation:
    """Explain the labels of one text; they are those of ``classify_units``, layer rules included."""
    text = text.encode("utf-8", "replace").decode()
    line = str(normalise_texts(pl.Series([text]))[0])
    language = language_of(pl.Series([line]), taxonomy)[0]
    decisions = [
        _decide(text, line, dimension, rules)
        for dimension, rules in zip(DIMENSIONS, _promising(line, taxonomy, language), strict=True)
    ]
    return Explanation(text, language, tuple(decisions))


def _promising(line: str, taxonomy: Taxonomy, language: str | None) -> list[list[Rule]]:
    """Return for each dimension the rules that are worth a search in Python, in order."""
    return [
        [rule for rule in rules if len(line) <= SHORT or matches(replace(rule, unless=None), pl.Series([line])).item()]
        for rules in program_for(taxonomy, language, DIMENSIONS).likely(line)
    ]


def _decide(text: str, line: str, dimension: Dimension, rules: list[Rule]) -> Decision:
    fired: Match | None = None
    following: list[Match] = []
    blocked: list[Match] = []
    for rule in rules:
        match = _match(rule, text, line)
        if match is None:
            continue
        if match.blocked_by is not None:
            if fired is None:
                blocked.append(match)
        elif fired is None:
            fired = match
        else:
            following.append(match)
    label = FALLBACKS[dimension] if fired is None else fired.label
    return Decision(dimension, label, fired, tuple(following[:_MOST_NEXT]), tuple(blocked[:_MOST_NEXT]))


def _match(rule: Rule, text: str, line: str) -> Match | None:
    found = nth_match(python(rule.pattern), head_of(line, rule.within), rule.times)
    if found is None:
        return None
    start, end = _place(text, line, found) or (None, None)
    unless = python(rule.unless).search(line) if rule.unless else None
    return Match(
        rule=rule.id,
        label=rule.label,
        tier=rule.tier,
        source=f"{rule.file}:{rule.line}",
        keyword=_readable(found[0]),
        start=start,
        end=end,
        blocked_by=_readable(unless[0]) if unless else None,
    )


def _place(text: str, line: str, found: re.Match[str]) -> tuple[int, int] | None:
    """Return where the matched words stand in the text as given.

    Cleaning moves characters but keeps words and their order, so the n-th place of the words in the
    normalised text is their n-th place in the text.
    """
    words = re.findall(r"\w+", found[0]) or re.findall(r"[^\s\x02-\x05]+", found[0])
    if not words:
        return None
    places = re.compile(r"[\W_]*?".join(map(re.escape, words)), re.IGNORECASE)
    nth = sum(1 for _ in places.finditer(line, 0, found.start()))
    spans = [place.span() for place in places.finditer(text)]
    return spans[nth] if nth < len(spans) else None


def _readable(matched: str) -> str:
    return re.sub(r"[\s\x03-\x05]+", " ", matched.replace(CAPS, " ")).strip()


def _line(match: Match) -> str:
    return f"{match.rule} ({match.tier}, {match.source}) on '{match.keyword}'"


def _excerpt(text: str, match: Match) -> str:
    if match.start is None or match.end is None:
        return match.keyword
    before, after = max(0, match.start - _AROUND), match.end + _AROUND
    marked = f"{text[before : match.start]}[{text[match.start : match.end]}]{text[match.end : after]}"
    return ("…" if before else "") + " ".join(marked.split()) + ("…" if after < len(text) else "")
