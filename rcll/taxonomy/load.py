"""Taxonomy files: read, checked for form, and put in order."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from rcll.errors import InputError
from rcll.taxonomy.dialect import PatternError, rust, translate, translate_words
from rcll.taxonomy.model import DIMENSIONS, TIERS, Dimension, Finding, Rule, Taxonomy
from rcll.taxonomy.normalise import MAX_CHARS

#: Shipped packs in the order in which they are read.
PACKS = ("en", "de", "fr", "es", "ru", "zh")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RULE_KEYS = {"id", "room", "hall", "layer", "pattern", "unless", "within", "times", "tier", "hits", "misses"}
_FILE_KEYS = {"language", "extends", "place", "words", "rules"}
_MAX_LAYER = 3
_MAX_TIMES = 20


class TaxonomyFile:
    """One file: its rules, its findings, and how it relates to the shipped rules."""

    def __init__(self, name: str, text: str) -> None:
        """Read the text of the file called ``name``; what is wrong goes to ``findings``."""
        self.name = name
        self.findings: list[Finding] = []
        self.rules: list[Rule] = []
        self.extends = False
        self.place = "before"
        self._lines = text.splitlines()
        self._rule_lines = _lines_by_rule(self._lines)
        try:
            self._read(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            at = re.search(r"at line (\d+)", str(error))
            self._find(int(at[1]) if at else len(self._lines), f"this is not TOML: {error}")

    def _find(self, line: int, message: str) -> None:
        self.findings.append(Finding(self.name, line, message))

    def _read(self, content: Mapping[str, Any]) -> None:
        for key in sorted(set(content) - _FILE_KEYS):
            self._find(self._line_of(key), f"unknown key '{key}'; expected {', '.join(sorted(_FILE_KEYS))}")
        if content.get("extends", "default") != "default":
            self._find(self._line_of("extends"), f'extends = {content["extends"]!r}; expected "default"')
        self.extends = "extends" in content
        self.place = content.get("place", "before")
        if self.place not in ("before", "after"):
            self._find(self._line_of("place"), f'place = {self.place!r}; expected "before" or "after"')
        language = content.get("language")
        if language is not None and not (isinstance(language, str) and re.fullmatch("[a-z]{2,3}", language)):
            self._find(self._line_of("language"), f'language = {language!r}; expected a code such as "en"')
        rules = content.get("rules")
        if not isinstance(rules, list) or not rules:
            self._find(0, "no rules; expected rules = [ { id = ..., room = ..., pattern = ..., hits = [...] }, ]")
            return
        words = self._words(content.get("words", {}))
        seen: dict[str, int] = {}
        for position, raw in enumerate(rules):
            self._rule(raw, position, language, words, seen)

    def _words(self, given: Any) -> dict[str, str]:
        words = {name: _one_pattern(value) for name, value in given.items()} if isinstance(given, dict) else {"": None}
        sound = {name: value for name, value in words.items() if value is not None}
        if len(sound) < len(words):
            self._find(
                self._line_of("words"),
                "words must be patterns or lists of patterns: words.VERBS = ['run|stop', 'open']",
            )
            return {}
        try:
            return translate_words(sound)
        except PatternError as error:
            self._find(self._line_of("words"), str(error))
            return {}

    def _rule(
        self, raw: Any, position: int, language: str | None, words: Mapping[str, str], seen: dict[str, int]
    ) -> None:
        if not isinstance(raw, dict) or not isinstance(raw.get("id"), str) or not raw["id"]:
            self._find(0, f'rule number {position + 1} has no id; expected id = "some.name"')
            return
        name = raw["id"]
        seen[name] = seen.get(name, 0) + 1
        line = self._line_of_rule(name, seen[name])
        if seen[name] > 1:
            self._find(line, f"rule '{name}': the id is used before; give it another one")
        problems = list(_problems(raw))
        for problem in problems:
            self._find(line, f"rule '{name}': {problem}")
        if problems:
            return
        dimension: Dimension = next(d for d in DIMENSIONS if d in raw)
        try:
            self.rules.append(
                Rule(
                    id=name,
                    dimension=dimension,
                    label=str(raw[dimension]),
                    pattern=translate(raw["pattern"], words),
                    unless=translate(raw["unless"], words) if "unless" in raw else None,
                    within=raw.get("within"),
                    times=raw.get("times", 1),
                    tier=raw.get("tier", "word"),
                    language=language,
                    hits=tuple(raw["hits"]),
                    misses=tuple(raw.get("misses", ())),
                    source=raw["pattern"],
                    file=self.name,
                    line=line,
                )
            )
        except PatternError as error:
            self._find(line, f"rule '{name}': {error}")

    def _line_of(self, key: str) -> int:
        start = re.compile(rf"\s*{re.escape(key)}\b")
        return next((n for n, line in enumerate(self._lines, 1) if start.match(line)), 0)

    def _line_of_rule(self, name: str, nth: int) -> int:
        lines = self._rule_lines.get(name, [])
        return lines[nth - 1] if nth <= len(lines) else 0


def _one_pattern(value: Any) -> str | None:
    """Return a named pattern as one, whether it is given whole or as a list of alternatives; None if neither."""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return "|".join(value)
    return value if isinstance(value, str) else None


def _lines_by_rule(lines: list[str]) -> dict[str, list[int]]:
    """Return the lines on which each rule id is given: tomllib does not tell."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(lines, 1):
        for mention in re.finditer(r"\bid\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", line):
            found.setdefault(mention[1] or mention[2], []).append(number)
    return found


def _problems(raw: Mapping[str, Any]) -> Iterator[str]:
    if unknown := sorted(set(raw) - _RULE_KEYS):
        yield f"unknown key '{unknown[0]}'; expected {', '.join(sorted(_RULE_KEYS))}"
    given = [d for d in DIMENSIONS if d in raw]
    if len(given) != 1:
        yield f"it gives {' and '.join(given) or 'nothing'}; expected exactly one of room, hall, layer"
    for dimension in ("room", "hall"):
        label = raw.get(dimension, "x")
        if not isinstance(label, str) or not _NAME.fullmatch(label):
            yield f"{dimension} {label!r}; expected up to 64 of a-z 0-9 _ -, in lower case"
    if not _is_number(raw.get("layer", 0), 0, _MAX_LAYER):
        yield f"layer {raw['layer']!r}; expected 0, 1, 2 or 3"
    if not _is_number(raw.get("within", 1), 1, MAX_CHARS):
        yield f"within {raw['within']!r}; expected a number of characters from 1 to {MAX_CHARS}"
    if not _is_number(raw.get("times", 1), 1, _MAX_TIMES):
        yield f"times {raw['times']!r}; expected how often the pattern must be found, 1 to {_MAX_TIMES}"
    if raw.get("tier", "word") not in TIERS:
        yield f"tier {raw['tier']!r}; expected one of {', '.join(TIERS)}"
    yield from _text_problems(raw)


def _text_problems(raw: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(raw.get("pattern"), str):
        yield "no pattern; expected pattern = 'a regular expression'"
    if not isinstance(raw.get("unless", ""), str):
        yield f"unless {raw['unless']!r}; expected a regular expression"
    for key in ("hits", "misses"):
        examples = raw.get(key, [])
        if not isinstance(examples, list) or not all(isinstance(example, str) for example in examples):
            yield f"{key} {examples!r}; expected a list of strings"
    if not raw.get("hits"):
        yield "no hits; expected at least one example that it must match"


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def read_packs() -> list[TaxonomyFile]:
    """Read the shipped packs that are there."""
    folder = resources.files("rcll.taxonomy") / "packs"
    files = [(f"{code}.toml", folder / f"{code}.toml") for code in PACKS]
    return [TaxonomyFile(name, path.read_text(encoding="utf-8")) for name, path in files if path.is_file()]


def read_file(path: str | Path) -> TaxonomyFile:
    """Read a user's file.

    Raises:
        InputError: there is no such file, or it is not UTF-8 text.
    """
    try:
        return TaxonomyFile(str(path), Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"taxonomy file '{path}' cannot be read: {reason}; expected a TOML file") from None


def load_taxonomy(path: str | Path | None = None) -> Taxonomy:
    """Return the shipped taxonomy, or what a user's file makes of it.

    Raises:
        InputError: the file cannot be used; the message names file, line and the first problem.
    """
    own = read_file(path) if path is not None else None
    packs = read_packs() if own is None or own.extends else []
    files = [*packs, own] if own is not None else packs
    findings = [finding for file in files for finding in file.findings] + clashes(files)
    if own is not None:  # what is shipped was compiled by the tests
        findings += [
            Finding(r.file, r.line, f"rule '{r.id}': {error}") for r in own.rules if (error := compile_error(r))
        ]
    if findings:
        more = f" (and {len(findings) - 1} more; see 'rcll taxonomy check')" if len(findings) > 1 else ""
        raise InputError(f"{findings[0]}{more}")
    base = tuple(rule for file in packs for rule in file.rules)
    if own is None:
        return Taxonomy(base)
    rules = tuple(own.rules)
    if not own.extends:
        return Taxonomy(rules)
    return Taxonomy(base, before=rules) if own.place == "before" else Taxonomy(base, after=rules)


def compile_error(rule: Rule) -> str | None:
    """Return why the regex engine cannot use the rule, None if it can."""
    for name, pattern in (("pattern", rule.pattern), ("unless", rule.unless)):
        try:
            if pattern is not None:
                pl.Series([""]).str.contains(rust(pattern))
        except pl.exceptions.ComputeError as error:
            said = re.search(r"(?m)^error: (.+)$", str(error))  # below a drawing of the pattern
            reason = said[1] if said else " ".join(str(error).split())
            return f"{name} is no regular expression: {reason}"
    return None


def clashes(files: list[TaxonomyFile]) -> list[Finding]:
    """Find ids that two files share."""
    seen: dict[str, str] = {}
    found: list[Finding] = []
    for file in files:
        for rule in file.rules:
            other = seen.setdefault(rule.id, file.name)
            if other != file.name:
                found.append(
                    Finding(file.name, rule.line, f"rule '{rule.id}': the id is used in {other}; give it another one")
                )
    return found
