r"""Text as the rules see it: cleaned, marked, lower-cased, one sentence a line (docs/taxonomy.md).

``normalise`` is the whole of it as one Polars expression. Cleaning and marking are dear and most units need
neither, so ``normalise_texts`` takes them only to the texts in which a search finds something to do; the
search says yes too often rather than too seldom, so the result is the same.
"""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from rcll.taxonomy.dialect import BULLET, CAPS, NUMBER, URL

#: Characters of a text that are read; the label of a longer text rests on its beginning.
MAX_CHARS = 10_000

_INVISIBLE = (
    r"[\u{80}-\u{9f}\u{ad}\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2060}-\u{206f}\u{fe00}-\u{fe0f}\u{feff}]"
)
_LETTERS = {
    **dict.fromkeys("‘’‚‛′´ʼ", "'"),
    **dict.fromkeys("“”„‟«»″", '"'),
    **dict.fromkeys("‐‑‒–―−•·▪◦", "-"),
    **dict.fromkeys(("\x85", "\u2028", "\u2029"), "\n"),
    "—": " - ",
    "。": ". ",
    "！": "! ",
    "？": "? ",
}
#: Steps that take the markup away, in order: what is found, what replaces it.
_MARKUP = (
    (r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])", ""),  # ANSI escapes
    (r"\r\n?", "\n"),
    (r"[\x00-\x09\x0b-\x1f\x7f]", " "),
    (r"(?m)^ *(?:`{3,}|~{3,})[^\n]*$", ""),  # fence lines
    (r"!?\[([^\]\n]{0,300})\]\([^)\n]*\)", "${1}"),  # links and images
    (r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,15}://|www\.)[^ \n<>\"')\]}|]+", URL),
    (r"\*{2,}|~~|`", ""),
    (r"\*([^\s*][^*\n]*)\*", "${1}"),
    (r"(\A|[\s(\"'])_+([^\s_][^\n_]*)_+", "${1}${2}"),
    (r"(?m)^ *(?:#{1,6}|>+) +", ""),  # headings, quotations
    (r"[|]|-{3,}|={3,}", " "),
    (r"[!-~]{60,}", " "),  # base64, hashes
    (r" *\n[ \n]*", "\n"),
    (r"\n(\p{Ll})", " ${1}"),  # wrapped lines
    (" {2,}", " "),
)
#: Where one of them may change something.
_DIRTY = r"[\x00-\x1f\x7f`|]|://|www\.|\*[^ ]|  |\]\(|~~|-{3}|={3}|\A[ #>]| \z|(?:\A|[ (\"'])_|[!-~]{60}"

_MONTHS = [
    "januar",
    "februar",
    "märz",
    "april",
    "mai",
    "juni",
    "juli",
    "august",
    "september",
    "oktober",
    "november",
    "dezember",
]
_ABBREVIATION = r"\b(vs|dr|mrs?|prof|bzw|ca|nr|incl|inkl|ggf|approx|etc)\. "
#: A list counts from 1; without that, no number is the mark of an item.
_LIST = r"[\n:.!?,;] ?\(?1[.)] | \(1\) "
_ITEM = r"([.!?])?[ \n]\(?[0-9]{1,2}[.)] "
_BULLET = r"\n[-*+] "
_CAPITALS = (
    rf"(?: |([\n{NUMBER}{BULLET}(\"'\[:;,/-]))"
    r"([A-Z\u{c0}-\u{d6}\u{d8}-\u{de}]{2,}(?-u:\b)|[\u{410}-\u{42f}\u{401}]{2,})"
)
#: Where a mark may have to be set, or an abbreviation to lose its dot, in an ASCII text.
_MARKS = (
    r"[ \n(\"'\[:;,/-][A-Z]{2,}(?-u:\b)|[ \n(]1[.)] |\n[-*+] "
    r"|(?i-u:\b(?:vs|dr|mrs?|prof|bzw|ca|nr|incl|inkl|ggf|approx|etc)\. )"
)


def _breaks() -> dict[str, str]:
    """Literals at which a sentence ends, and those where it only seems so.

    All start with one of three characters, which the search skips to.
    """
    table: dict[str, str] = {}
    for end in ".!?":
        for closing in ("", '"', ")", "'"):
            table[f"{end}{closing} "] = f"{end}{closing}\n"
            table[f"{end}{closing}{CAPS}"] = f"{end}{closing}\n{CAPS}"
    seeming = [f". {digit}" for digit in range(10)] + [f". {month}" for month in _MONTHS]
    seeming += [f".{letter}. " for letter in ("g", "e", "b", "h", "a", "k", "т", "д", "п", " ex", " b", " h", " ej")]
    table |= dict(zip(seeming, seeming, strict=True))
    return dict(sorted(table.items(), key=lambda item: -len(item[0])))


_BREAKS = _breaks()


def clean_characters(text: pl.Expr) -> pl.Expr:
    """Return the beginning of the text with one way to write each character, and no invisible ones."""
    text = text.str.head(MAX_CHARS).str.replace_many(list(_LETTERS), list(_LETTERS.values()))
    text = text.str.normalize("NFKC")
    text = text.str.replace_all("İ", "I", literal=True)  # its lower case has a dot that no pattern expects
    return text.str.replace_all(_INVISIBLE, "")


def clean_markup(text: pl.Expr) -> pl.Expr:
    """Return the text without what only decorates it."""
    for pattern, replacement in _MARKUP:
        text = text.str.replace_all(pattern, replacement)
    return text.str.strip_chars(" \n")


def wrap(text: pl.Expr) -> pl.Expr:
    """Put a line feed round every text: its ends are boundaries like others, and start a sentence."""
    return pl.concat_str(pl.lit("\n"), text, pl.lit("\n"))


def drop_dots(lines: pl.Expr) -> pl.Expr:
    """Drop the dot of well-known abbreviations, which would end the sentence."""
    return lines.str.replace_all(f"(?i-u:{_ABBREVIATION})", "${1} ")


def mark_items(lines: pl.Expr) -> pl.Expr:
    """Make bullets, and the numbers of lists, one mark at the start of a line."""
    numbered = lines.str.replace_all(_ITEM, f"${{1}}\n{NUMBER}")
    marked = pl.when(lines.str.contains(_LIST)).then(numbered).otherwise(lines)
    return marked.str.replace_all(_BULLET, f"\n{BULLET}")


def mark_capitals(lines: pl.Expr) -> pl.Expr:
    """Mark words of two or more capitals, in place of the space before them if there is one."""
    return lines.str.replace_all(_CAPITALS, f"${{1}}{CAPS}${{2}}")


def break_sentences(lines: pl.Expr) -> pl.Expr:
    """Lower the case, and begin a line at every sentence."""
    return lines.str.to_lowercase().str.replace_many(list(_BREAKS), list(_BREAKS.values()), leftmost=True)


def normalise(text: pl.Expr) -> pl.Expr:
    """Return the text as the rules see it; null reads as empty."""
    lines = wrap(clean_markup(clean_characters(text.fill_null(""))))
    return break_sentences(mark_capitals(mark_items(drop_dots(lines))))


def normalise_texts(texts: pl.Series) -> pl.Series:
    """Return the same as ``normalise``, at the cost of the few texts that need all of it."""
    column = pl.col("text")
    is_wide = column.str.len_bytes() != column.str.len_chars()
    lines = texts.alias("text").fill_null("")
    lines = _change(lines, [clean_characters], is_wide | (column.str.len_bytes() > MAX_CHARS))
    lines = _change(lines, [clean_markup], column.str.contains(_DIRTY))
    lines = _change(lines, [wrap])
    lines = _change(lines, [drop_dots, mark_items, mark_capitals], is_wide | column.str.contains(_MARKS))
    return _change(lines, [break_sentences]).alias(texts.name)


def _change(
    texts: pl.Series, steps: Sequence[Callable[[pl.Expr], pl.Expr]], where: pl.Expr | None = None
) -> pl.Series:
    """Apply the steps where told; strings are moved as views, not copied."""
    if where is None:
        for step in steps:
            texts = texts.to_frame("text").select(step(pl.col("text")).alias("text")).to_series()
        return texts
    rows = texts.to_frame("text").select(where.arg_true()).to_series()
    if rows.is_empty():
        return texts
    changed = _change(texts.gather(rows), steps)
    source = np.arange(len(texts), dtype=np.uint32)
    source[rows.to_numpy()] = np.arange(len(texts), len(texts) + len(rows), dtype=np.uint32)
    return pl.concat([texts, changed]).gather(source)
