"""One text at a time in Python: the same as ``normalise_texts`` and ``detect_languages``, without the cost of a call.

A call of Polars takes some 30 microseconds, and both take dozens of them; that is nothing for many texts and too much
for the one that just arrived. The tables are those of the two modules. Texts with characters on which Python and Rust
may disagree, or that need cleaning, go through Polars.
"""

import re
import unicodedata

import polars as pl

from rcll.taxonomy import language as many
from rcll.taxonomy import normalise as steps
from rcll.taxonomy.dialect import CAPS

_CYRILLIC_END = 0x500
#: Lower-case letters among the usual characters; ``re`` has no name for them.
_LOWER = "".join(chr(code) for code in range(_CYRILLIC_END) if unicodedata.category(chr(code)) == "Ll")


def _compiled(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return a pattern of the Polars steps for Python."""
    pattern = re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: f"\\u{int(found[1], 16):04x}", pattern)
    for rust, python in ((r"(?-u:\b)", r"\b"), ("(?i-u:", "(?i:"), (r"\p{Ll}", f"[{_LOWER}]"), (r"\z", r"\Z")):
        pattern = pattern.replace(rust, python)
    return re.compile(pattern, flags)


_UNUSUAL, _DIRTY = _compiled(steps.UNUSUAL), _compiled(steps.DIRTY)
_MARKUP = [(_compiled(found), re.sub(r"\$\{(\d)\}", r"\\\1", new)) for found, new in steps.MARKUP]
_MARKS, _ABBREVIATION, _LIST, _ITEM, _BULLET, _OPENING, _CAPITALS = (
    _compiled(pattern, re.ASCII)
    for pattern in (
        steps.MARKS,
        f"(?i-u:{steps.ABBREVIATION})",
        steps.LIST,
        steps.ITEM,
        steps.BULLETED,
        steps.OPENING,
        steps.CAPITALS,
    )
)
_BREAK = re.compile("|".join(map(re.escape, steps.BREAKS)))

_ENGLISH, _FOREIGN = re.compile(many.ENGLISH), re.compile(many.FOREIGN)
_SCRIPTS = [_compiled(pattern) for pattern in (many.CYRILLIC, many.HAN, many.KANA, many.LATIN)]
_WORDS = {sign.strip(): numbers for sign, numbers in many.EVIDENCE.items() if sign.startswith(" ")}
_SIGNS = {sign: numbers for sign, numbers in many.EVIDENCE.items() if not sign.startswith(" ")}
_CODES = list(many.FUNCTION_WORDS)


def normalise_text(text: str | None) -> str:
    """Return the text as the rules see it; null reads as empty."""
    text = text or ""
    if len(text) > steps.MAX_CHARS or _UNUSUAL.search(text):
        return str(steps.normalise_texts(pl.Series([text]))[0])
    if _DIRTY.search(text):
        for pattern, replacement in _MARKUP:
            text = pattern.sub(replacement, text)
        text = text.strip(" \n")
    line = f"\n{text}\n"
    if _MARKS.search(line):
        line = _mark(line)
    return _BREAK.sub(lambda found: steps.BREAKS[found[0]], line.lower())


def _mark(line: str) -> str:
    line = _ABBREVIATION.sub(r"\1 ", line)
    if _LIST.search(line):
        line = _ITEM.sub("\\1\x03\n", line)
    return _CAPITALS.sub(f"\\1{CAPS}\\2", _OPENING.sub("\n", _BULLET.sub("\x04\n", line)))


def language_of_text(line: str) -> str | None:
    """Return the language code of a normalised text, None without a letter (``detect_languages``)."""
    n_wide = 0 if line.isascii() else len(line.encode()) - len(line)
    if n_wide * many.ASCII_SHARE <= len(line) and _ENGLISH.search(line) and not _FOREIGN.search(line):
        return "en"
    sample = line[: many.SAMPLE]
    if _UNUSUAL.search(sample):
        return many.detect_languages(pl.Series([line]))[0]
    return _by_script(sample) if any(map(str.isalpha, sample)) else None


def _by_script(sample: str) -> str:
    n_letters = sum(map(str.isalpha, sample))
    n_cyrillic, n_han, n_kana, n_latin = (len(script.findall(sample)) for script in _SCRIPTS)
    if n_kana and many.WEIGHT["ja"] * (n_han + n_kana) >= n_latin:
        return "ja"
    if n_han and many.WEIGHT["zh"] * n_han >= n_latin:
        return "zh"
    if n_cyrillic and many.WEIGHT["ru"] * n_cyrillic >= n_latin:
        return "uk" if re.search(many.NOT_RUSSIAN, sample) else "ru"
    return "other" if n_letters > 2 * n_latin else _latin_language(sample)


def _latin_language(sample: str) -> str:
    spaced = sample.replace("\n", " ").replace(CAPS, " ")
    scores = [0] * len(_CODES)
    for word in spaced.split(" ")[1:-1]:  # those between two spaces
        for number in _WORDS.get(word, ()):
            scores[number] += 1
    for sign, numbers in _SIGNS.items():
        if n_found := spaced.count(sign):
            for number in numbers:
                scores[number] += n_found
    return _CODES[scores.index(max(scores))]
