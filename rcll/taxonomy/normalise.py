r"""Text as the rules see it: cleaned, marked, lower-cased, one sentence a line (docs/taxonomy.md).

``normalise`` is the whole of it as one Polars expression. Cleaning and marking are dear and most units need
neither, so ``normalise_texts`` takes them only to the texts in which a search finds something to do; the
search says yes too often rather than too seldom, so the result is the same.
"""

from collections.abc import Callable

import numpy as np
import polars as pl

from rcll.taxonomy.dialect import BULLET, CAPS, NUMBER, URL

#: Characters of a text that are read; the label of a longer text rests on its beginning.
MAX_CHARS = 10_000

_INVISIBLE = r"[\u{80}-\u{9f}\u{ad}\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2060}-\u{206f}\u{fe00}-\u{fe0f}\u{feff}]"
#: Characters that cleaning leaves as they are: ASCII, letters of Europe, kana and Han. (No combining marks.)
UNUSUAL = (
    r"[^\x00-\x7f\u{a1}-\u{a7}\u{b0}\u{bf}-\u{12f}\u{131}\u{134}-\u{13e}\u{141}-\u{148}\u{14a}-\u{17e}"
    r"\u{400}-\u{482}\u{3001}\u{3041}-\u{3096}\u{30a1}-\u{30fa}\u{4e00}-\u{9fff}]"
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
MARKUP = (
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
    (r" *\n *", "\n"),
    (r"([^\n])\n(\p{Ll})", "${1} ${2}"),  # wrapped lines
    (r"\n{2,}", "\n"),
    (" {2,}", " "),
)
#: Where one of them may change something.
DIRTY = r"[\x00-\x1f\x7f`|]|://|www\.|\*[^ ]|  |\]\(|~~|-{3}|={3}|\A[ #>]| \z|(?:\A|[ (\"'])_|[!-~]{60}"

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
ABBREVIATION = r"\b(vs|dr|mrs?|prof|bzw|ca|nr|incl|inkl|ggf|approx|etc)\. "
#: A list counts from 1; without that, no number is the mark of an item.
LIST = r"[\n:.!?,;] ?\(?1[.)] | \(1\) "
ITEM = r"([.!?])?[ \n]\(?[0-9]{1,2}[.)] "
BULLETED = r"\n[-*+] "
OPENING = r"\n[\"'(\[]+"
_SHOUTED = r"(?:[A-Z\u{c0}-\u{d6}\u{d8}-\u{de}]{2,}(?-u:\b)|[\u{410}-\u{42f}\u{401}]{2,})"
CAPITALS = rf"(?: |([\n(\"'\[:;,/-]))({_SHOUTED})"
#: Where a mark may have to be set, or an abbreviation to lose its dot.
MARKS = (
    rf"[ \n(\"'\[:;,/-]{_SHOUTED}|[ \n(:.!?,;]1[.)] |\n[-*+\"'(\[]|"
    r"(?i-u:\b(?:vs|dr|mrs?|prof|bzw|ca|nr|incl|inkl|ggf|approx|etc)\. )"
)


def _breaks() -> dict[str, str]:
    """Literals at which a sentence ends, and those where it only seems so.

    All start with one of three characters, which the search skips to.
    """
    table: dict[str, str] = {}
    for end in ".!?":
        for closing in ("", '"', ")", "'"):
            for opening in ("", '"', "'", "(", "["):
                table[f"{end}{closing} {opening}"] = f"{end}{closing}\n"
            table[f"{end}{closing}{CAPS}"] = f"{end}{closing}\n{CAPS}"
    seeming = [f". {digit}" for digit in range(10)] + [f". {month}" for month in _MONTHS]
    seeming += [f".{letter}. " for letter in ("g", "e", "b", "h", "a", "k", "т", "д", "п", " ex", " b", " h", " ej")]
    table |= dict(zip(seeming, seeming, strict=True))
    return dict(sorted(table.items(), key=lambda item: -len(item[0])))


BREAKS = _breaks()


def clean_characters(text: pl.Expr) -> pl.Expr:
    """Return the beginning of the text with one way to write each character, and no invisible ones."""
    text = text.str.head(MAX_CHARS).str.replace_many(list(_LETTERS), list(_LETTERS.values()))
    text = text.str.normalize("NFKC")
    text = text.str.replace_all("İ", "I", literal=True)  # its lower case has a dot that no pattern expects
    return text.str.replace_all(_INVISIBLE, "")


def clean_markup(text: pl.Expr) -> pl.Expr:
    """Return the text without what only decorates it."""
    for pattern, replacement in MARKUP:
        text = text.str.replace_all(pattern, replacement)
    return text.str.strip_chars(" \n")


def wrap(text: pl.Expr) -> pl.Expr:
    """Put a line feed round every text: its ends are boundaries like others, and start a sentence."""
    return pl.concat_str(pl.lit("\n"), text, pl.lit("\n"))


def drop_dots(lines: pl.Expr) -> pl.Expr:
    """Drop the dot of well-known abbreviations, which would end the sentence."""
    return lines.str.replace_all(f"(?i-u:{ABBREVIATION})", "${1} ")


def mark_items(lines: pl.Expr) -> pl.Expr:
    """Begin a line at list items, with a mark before it, and let lines begin with their first word."""
    numbered = lines.str.replace_all(ITEM, f"${{1}}{NUMBER}\n")
    marked = pl.when(lines.str.contains(LIST)).then(numbered).otherwise(lines)
    return marked.str.replace_all(BULLETED, f"{BULLET}\n").str.replace_all(OPENING, "\n")


def mark_capitals(lines: pl.Expr) -> pl.Expr:
    """Mark words of two or more capitals, in place of the space before them if there is one."""
    return lines.str.replace_all(CAPITALS, f"${{1}}{CAPS}${{2}}")


def break_sentences(lines: pl.Expr) -> pl.Expr:
    """Lower the case, and begin a line at every sentence."""
    return lines.str.to_lowercase().str.replace_many(list(BREAKS), list(BREAKS.values()), leftmost=True)


def normalise(text: pl.Expr) -> pl.Expr:
    """Return the text as the rules see it; null reads as empty."""
    lines = wrap(clean_markup(clean_characters(text.fill_null(""))))
    return break_sentences(mark_capitals(mark_items(drop_dots(lines))))


def normalise_texts(texts: pl.Series) -> pl.Series:
    """Return the same as ``normalise``, at the cost of the few texts that need all of it."""
    text = pl.col("text")
    is_wide = text.str.len_bytes() != text.str.len_chars()
    lines = texts.fill_null("")
    lines = _change(lines, is_wide | (text.str.len_bytes() > MAX_CHARS), _clean_unusual)
    lines = _change(lines, text.str.contains(DIRTY), lambda found: _apply(found, clean_markup))
    lines = _apply(lines, wrap)
    lines = _change(lines, text.str.contains(MARKS), _mark)
    return _apply(lines, break_sentences).alias(texts.name)


def _clean_unusual(texts: pl.Series) -> pl.Series:
    is_unusual = pl.col("text").str.contains(UNUSUAL) | (pl.col("text").str.len_chars() > MAX_CHARS)
    return _change(texts, is_unusual, lambda found: _apply(found, clean_characters))


def _mark(lines: pl.Series) -> pl.Series:
    for step in (drop_dots, mark_items, mark_capitals):
        lines = _apply(lines, step)
    return lines


def _apply(texts: pl.Series, step: Callable[[pl.Expr], pl.Expr]) -> pl.Series:
    return texts.to_frame("text").select(step(pl.col("text")).alias("text")).to_series()


def _change(texts: pl.Series, where: pl.Expr, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Change the texts of which the condition holds; strings are moved as views, not copied."""
    rows = texts.to_frame("text").select(where.arg_true()).to_series()
    if rows.is_empty():
        return texts
    source = np.arange(len(texts), dtype=np.uint32)
    source[rows.to_numpy()] = np.arange(len(texts), len(texts) + len(rows), dtype=np.uint32)
    return pl.concat([texts.alias("text"), change(texts[rows]).alias("text")])[pl.Series(source)]
