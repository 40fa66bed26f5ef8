"""Which language a text is in, from its script and its function words."""

import numpy as np
import polars as pl

from rcll.taxonomy.dialect import CAPS

#: Characters from which the language is told.
SAMPLE = 240

#: Function words by language; ties go to the earlier language.
FUNCTION_WORDS = {
    "en": "the and of to is are was were be been for with that this these those it its in on at by from as not "
    "but or if when we you they he she our your their his her have has had will would can should must do does did "
    "an a no never always after before which who what into than then there",
    "de": "der die das den dem des und ist sind war waren nicht mit auf ein eine einen einem einer eines im am zum "
    "zur von bei wird werden wurde wurden haben hat hatte oder aber wenn dass als auch nur noch nach aus an wir sie "
    "er es ich ihr man kann muss soll darf sich vor durch in zu vom beim kein keine keinen nie immer um wie unter "
    "seit jede jeder jedes",
    "fr": "le la les des du de un une et est sont sur dans pour par avec pas ne que qui au aux ce cette ces nous vous "
    "ils elle elles il on se sa son ses leur plus ou mais sans chez jamais toujours avant lors tous toute en je "
    "avons ont",
    "es": "el la los las de del un una unos unas y es son en para por con no que al se su sus lo como pero sin nunca "
    "siempre antes cuando fue han ha hay desde hasta este esta estos estas muy ya nos cada tras ser o",
    "it": "il è lo la gli le di del della dei delle un una e sono con per non che al alla nel nella si ma come anche "
    "da dal questo questa ogni prima",
    "pt": "o os as do da dos das um uma e com para por que em no na nos nas ao se mas como foi ser seu sua mais nunca "
    "sempre este esta pelo pela",
    "nl": "de het een en van is zijn op te met voor niet dat die aan door ook als bij naar wordt worden maar om uit "
    "nog geen dit deze kan moet heeft",
    "pl": "i w na z do jest nie to ze od dla po przed przez jak ale oraz tylko przy tego jego sa za o",
    "sv": "och att det som en ett av med den till inte har om men var vid kan ska efter innan alla",
    "da": "og at det som en et af med den til ikke har om men var ved kan skal efter jeg vi er",
    "tr": "ve bir bu ile olarak daha ancak gibi kadar sonra her ama icin",
}
#: What else gives a language away, wherever it stands.
_SIGNS = {
    "de": "ä ö ü ß",
    "fr": "l' d' qu' é è ê à ç œ",
    "es": "ñ ¿ ¡ ó í á é",
    "it": "ò à ù è ì dell' un'",
    "pt": "ã õ ç",
    "pl": "ą ę ł ń ś ź ż",
    "sv": "å ä ö",
    "da": "å æ ø",
    "tr": "ı ğ ş",
}
#: With one of these and none of ``FOREIGN``, a text that is nearly all ASCII is English without counting.
ENGLISH = " (?:the|and|of|to|is|are|was|for|with|that|this|by|from|not|have|has|will|must|can|be|we|it) "
#: Frequent words that English does not have.
FOREIGN = (
    " (?:der|das|und|ist|nicht|mit|ein|eine|auf|von|werden|zu|les|des|est|une|pour|dans|et|el|los|las|que|para|il|che|"
    "della|una|het|een|niet|voor|nie|jest|oraz|os|uma|com|och|att|ve|bir) "
)
#: Of so many characters, one may be outside ASCII.
ASCII_SHARE = 12
#: Of two scripts in one text, Latin needs so many letters to outweigh one of the other.
WEIGHT = {"ru": 2, "zh": 4, "ja": 4}
CYRILLIC = r"[\u{400}-\u{52f}]"
HAN = r"[\u{3400}-\u{9fff}\u{f900}-\u{faff}]"
KANA = r"[\u{3040}-\u{30ff}]"
LATIN = r"[a-z\u{df}-\u{24f}]"
#: Cyrillic letters that Russian does not have.
NOT_RUSSIAN = "[іїєґўђјљњћџќѓѕ]"


def _evidence() -> dict[str, list[int]]:
    """What is searched, and the numbers of the languages for which it speaks."""
    found: dict[str, list[int]] = {}
    for number, (code, words) in enumerate(FUNCTION_WORDS.items()):
        signs = [f" {word} " for word in dict.fromkeys(words.split())] + _SIGNS.get(code, "").split()
        for sign in signs:
            found.setdefault(sign, []).append(number)
    return found


EVIDENCE = _evidence()


def detect_languages(lines: pl.Series) -> pl.Series:
    """Return the language code of normalised texts, null without a letter, ``other`` where no code is known.

    A text with a frequent English word, none of the frequent words of its neighbours and hardly a character
    outside ASCII is English. Else the script decides, and among Latin languages the number of function words in
    the first 240 characters; without any it counts as English.
    """
    codes = pl.repeat("en", len(lines), dtype=pl.String, eager=True)
    rows = lines.to_frame("text").select((~_is_plainly_english(pl.col("text"))).arg_true()).to_series()
    if rows.is_empty():
        return codes
    samples = lines[rows].str.head(SAMPLE)
    by_script = _script(samples)
    latin = by_script == "latin"
    by_script = by_script.scatter(latin.arg_true(), _latin_languages(samples.filter(latin)))
    return codes.scatter(rows, by_script)


def _is_plainly_english(lines: pl.Expr) -> pl.Expr:
    n_bytes, n_chars = lines.str.len_bytes(), lines.str.len_chars()
    is_ascii = (n_bytes - n_chars) * ASCII_SHARE <= n_chars
    return is_ascii & lines.str.contains(ENGLISH) & ~lines.str.contains(FOREIGN)


def _script(samples: pl.Series) -> pl.Series:
    """Return the language that the script tells, or ``latin``."""
    text, count = pl.col("text"), {"cyrillic": CYRILLIC, "han": HAN, "kana": KANA, "latin": LATIN}
    counts = samples.to_frame("text").with_columns(
        text.str.count_matches(r"\p{L}").alias("letters"),
        *(text.str.count_matches(pattern).alias(name) for name, pattern in count.items()),
    )
    cyrillic, han, kana, latin = (pl.col(name) for name in count)
    chosen = (
        pl.when(pl.col("letters") == 0)
        .then(pl.lit(None, pl.String))
        .when((kana > 0) & (WEIGHT["ja"] * (han + kana) >= latin))
        .then(pl.lit("ja"))
        .when((han > 0) & (WEIGHT["zh"] * han >= latin))
        .then(pl.lit("zh"))
        .when((cyrillic > 0) & (WEIGHT["ru"] * cyrillic >= latin))
        .then(pl.when(text.str.contains(NOT_RUSSIAN)).then(pl.lit("uk")).otherwise(pl.lit("ru")))
        .when(pl.col("letters") > 2 * latin)
        .then(pl.lit("other"))
        .otherwise(pl.lit("latin"))
    )
    return counts.select(chosen).to_series()


def _latin_languages(texts: pl.Series) -> pl.Series:
    """Return the language of which each text holds most words."""
    spaced = texts.str.replace_many({"\n": " ", CAPS: " "})
    found = spaced.str.extract_many(list(EVIDENCE), overlapping=True)
    scores = np.zeros((len(texts), len(FUNCTION_WORDS)), np.int32)
    rows = np.repeat(np.arange(len(texts)), found.list.len().to_numpy())
    signs = found.list.explode(keep_nulls=False, empty_as_null=False)
    for number in range(len(FUNCTION_WORDS)):
        own = [sign for sign, numbers in EVIDENCE.items() if number in numbers]
        np.add.at(scores[:, number], rows[signs.is_in(own).to_numpy()], 1)
    codes = pl.Series(list(FUNCTION_WORDS))
    return codes[pl.Series(scores.argmax(axis=1).astype(np.uint32))]
