"""What is wrong or doubtful in a taxonomy file, with file and line."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import polars as pl

from rcll.errors import InputError
from rcll.taxonomy.dialect import rust
from rcll.taxonomy.literals import alternatives, spelled_out
from rcll.taxonomy.load import TaxonomyFile, clashes, compile_error, read_file, read_packs
from rcll.taxonomy.match import Program, find_in_python, matches
from rcll.taxonomy.model import DIMENSIONS, LENDER, Finding, Rule, Taxonomy
from rcll.taxonomy.normalise import normalise_texts

#: Rules beyond which speed was not measured.
_MANY_RULES = 2_000
#: Texts in which a pattern shows whether it matches the empty string.
_PROBES = ("", "\n\n", "\na b\n", "\n1 - é.\n")
#: What may stand round a word: a rule is shadowed only if it is in every surrounding in which it matches.
_SURROUNDINGS = (("\n", "\n"), (" ", " "), (" ", "x"), ("x", " "), ("x", "x"), ("-", "-"), ("\n", "x"))
#: Strings that a rule may stand for to be compared with earlier ones.
_MOST_STRINGS = 40


def check_taxonomy(path: str | Path | None = None) -> list[Finding]:
    """Return the findings on a user's file, or on the shipped packs; empty if all is well.

    A file that extends the shipped rules is looked at together with them, but only its own findings are returned.
    Examples run through the same engine as texts do.
    """
    try:
        own = [read_file(path)] if path is not None else read_packs()
    except InputError as error:
        return [Finding(str(path), 0, str(error))]
    shipped = read_packs() if path is not None and own[0].extends else []
    found = [finding for file in own for finding in file.findings] + clashes([*shipped, *own])
    usable: list[Rule] = []
    for rule in (rule for file in own for rule in file.rules):
        problems = list(_pattern_problems(rule))
        found += problems
        if not problems:
            usable.append(rule)
    found += _example_problems(usable)
    found += _similar_labels(rule for file in [*shipped, *own] for rule in file.rules)
    if not found:
        found += _shadowed(_together(own, shipped), {file.name for file in own})
    if len(usable) > _MANY_RULES:
        message = f"{len(usable)} rules; speed was measured up to {_MANY_RULES}"
        found.append(Finding(own[0].name, 0, message, "warning"))
    return sorted(found, key=lambda finding: (finding.file, finding.line, finding.message))


def _at(rule: Rule, message: str) -> Finding:
    return Finding(rule.file, rule.line, f"rule '{rule.id}': {message}")


def _pattern_problems(rule: Rule) -> Iterator[Finding]:
    for name, pattern in (("pattern", rule.pattern), ("unless", rule.unless)):
        if pattern is None:
            continue
        try:
            found = pl.Series(_PROBES).str.extract(rust(pattern), 0)
        except pl.exceptions.ComputeError:
            yield _at(rule, compile_error(rule) or f"{name} cannot be used")
            return
        if "" in found.to_list():
            yield _at(rule, f"{name} matches the empty string, so it would match everywhere; make a part obligatory")


def _example_problems(rules: list[Rule]) -> Iterator[Finding]:
    examples = [(number, text) for number, rule in enumerate(rules) for text in (*rule.hits, *rule.misses)]
    lines = normalise_texts(pl.Series([text for _, text in examples], dtype=pl.String))
    at = 0
    for rule in rules:
        n_hits, n_examples = len(rule.hits), len(rule.hits) + len(rule.misses)
        for place, is_match in enumerate(matches(rule, lines[at : at + n_examples])):
            text = (*rule.hits, *rule.misses)[place]
            if is_match != (place < n_hits):
                kind = "does not match its hit" if place < n_hits else "matches its miss"
                yield _at(rule, f"{kind} '{text}', read as {lines[at + place]!r}")
        at += n_examples


def _similar_labels(rules: Iterable[Rule]) -> Iterator[Finding]:
    """Find labels that people would take for one: auth-z and auth_z."""
    first: dict[tuple[str, str], Rule] = {}
    told: set[str] = set()
    for rule in rules:
        key = (rule.dimension, rule.label.replace("-", "").replace("_", ""))
        other = first.setdefault(key, rule)
        if other.label != rule.label and rule.label not in told:
            told.add(rule.label)
            yield _at(
                rule, f"{rule.dimension} '{rule.label}' differs from '{other.label}' only by - or _; use one of them"
            )


def _together(own: list[TaxonomyFile], shipped: list[TaxonomyFile]) -> Taxonomy:
    rules = tuple(rule for file in own for rule in file.rules)
    base = tuple(rule for file in shipped for rule in file.rules)
    if not shipped:
        return Taxonomy(rules)
    return Taxonomy(base, before=rules) if own[0].place == "before" else Taxonomy(base, after=rules)


def _shadowed(taxonomy: Taxonomy, files: set[str]) -> Iterator[Finding]:
    """Find rules that can never be the first: whatever they match, an earlier rule matches too.

    A rule is looked at in one language after another, until it is found to be reached by the texts of one.
    """
    reached: set[str] = set()
    takers: dict[str, tuple[Rule, Rule]] = {}
    for language in sorted([*taxonomy.languages, None], key=lambda code: code != LENDER):
        for dimension in DIMENSIONS:
            rules = taxonomy.rules_for(language, dimension)
            asked = {n for n, rule in enumerate(rules) if rule.file in files and rule.id not in reached}
            taken = _shadowed_in(rules, asked)
            reached |= {rules[number].id for number in asked - taken.keys()}
            for number, by in taken.items():
                takers.setdefault(rules[number].id, (rules[number], rules[by]))
    for rule, by in (pair for name, pair in takers.items() if name not in reached):
        yield _at(rule, f"never reached: '{by.id}' (line {by.line}) takes all that it matches; remove it or move it up")


def _shadowed_in(rules: tuple[Rule, ...], asked: set[int]) -> dict[int, int]:
    """Return which of the rules asked about are taken by which, both by number.

    Those that stand for a few strings are compared with earlier rules that nothing restrains.
    """
    lines: list[str] = []
    owners: dict[int, list[int]] = defaultdict(list)
    for number in sorted(asked):
        for string in _few_strings(rules[number].pattern):
            for before, after in _SURROUNDINGS:
                owners[number].append(len(lines))
                lines.append(f"\n{before}{string}{after}\n")
    earlier = rules[: max(owners, default=-1) + 1]
    free = [number for number, rule in enumerate(earlier) if rule.unless is None and rule.within is None]
    if not lines or not free:
        return {}
    first = Program([tuple(rules[number] for number in free)]).all_at_once(pl.Series(lines))[0]
    found: dict[int, int] = {}
    for number, places in owners.items():
        own = [place for place in places if find_in_python(rules[number], lines[place])]
        by = {free[first[place]] if first[place] >= 0 else number for place in own}
        if by and max(by) < number:
            found[number] = min(by)
    return found


@lru_cache(maxsize=8192)
def _few_strings(pattern: str) -> list[str]:
    """Return all strings that the pattern can match if they are few, else none."""
    if len(alternatives(pattern)) > _MOST_STRINGS:
        return []
    strings = spelled_out(pattern)
    return sorted(strings) if strings is not None and len(strings) <= _MOST_STRINGS else []
