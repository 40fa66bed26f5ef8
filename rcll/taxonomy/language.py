"""Which language a text is in, from its script and its function words."""

import polars as pl

#: Characters from which the language is told.
_SAMPLE = 240

#: Function words by language; ties go to the earlier language. They are searched between ASCII word
#: boundaries, so none begins or ends with another letter.
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
    "it": "il lo la gli le di del della dei delle un una e sono con per non che al alla nel nella si ma come anche da "
    "dal questo questa ogni prima",
    "pt": "o os as do da dos das um uma e com para por que em no na nos nas ao se mas como foi ser seu sua mais nunca "
    "sempre este esta pelo pela",
    "nl": "de het een en van is zijn op te met voor niet dat die aan door ook als bij naar wordt worden maar om uit "
    "nog geen dit deze kan moet heeft",
    "pl": "i w na z do jest nie to ze od dla po przed przez jak ale oraz tylko przy tego jego sa za o",
    "sv": "och att det som en ett av med den till inte har om men var vid kan ska efter innan alla",
    "da": "og at det som en et af med den til ikke har om men var ved kan skal efter jeg vi er",
    "tr": "ve bir bu ile olarak daha ancak gibi kadar sonra her ama icin",
}
#: What else gives a language away.
_EXTRA = {
    "de": "[äöüß]",
    "fr": r"(?-u:\b)(?:l|d|j|n|s|c|qu)'[a-zéèêà]|[éèêàçœ]",
    "es": "[ñ¿¡óíáé]",
    "it": "[òàù]",
    "pt": "[ãõç]",
    "pl": "[ąęłńśźż]",
    "sv": "[åäö]",
    "da": "[åæø]",
    "tr": "[ığş]",
}
#: With one of these and none of ``_FOREIGN``, a text that is nearly all ASCII is English without counting.
_ENGLISH = " (?:the|and|of|to|is|are|was|for|with|that|this|by|from|not|have|has|will|must|can|be|we|it) "
#: Frequent words that English does not have.
_FOREIGN = "|".join(
    f" {word} "
    for word in "der das und ist nicht mit ein eine auf von werden zu les des est une pour dans et el los las que "
    "para il che della una het een niet voor nie jest oraz os uma com och att ve bir".split()
)
#: Of so many characters, one may be outside ASCII.
_ASCII_SHARE = 12
_CYRILLIC = r"[\u{400}-\u{52f}]"
_HAN = r"[\u{3400}-\u{9fff}\u{f900}-\u{faff}]"
_KANA = r"[\u{3040}-\u{30ff}]"
_LATIN = r"[a-z\u{df}-\u{24f}]"
#: Cyrillic letters that Russian does not have.
_NOT_RUSSIAN = "[іїєґўђјљњћџќѓѕ]"


def detect(lines: pl.Expr) -> pl.Expr:
    """Return the language code of normalised texts; null without a letter, ``other`` where no code is known."""
    return pl.when(is_plainly_english(lines)).then(pl.lit("en")).otherwise(_weigh(lines.str.head(_SAMPLE)))


def detect_texts(lines: pl.Series) -> pl.Series:
    """Return the same as ``detect``, counting words in doubtful texts only."""
    column = pl.col("text")
    frame = lines.to_frame("text")
    rows = frame.select((~is_plainly_english(column)).arg_true()).to_series()
    codes = pl.repeat("en", len(lines), dtype=pl.String, eager=True)
    if rows.is_empty():
        return codes
    doubtful = frame[rows].select(_weigh(column.str.head(_SAMPLE))).to_series()
    return codes.scatter(rows, doubtful)


def is_plainly_english(lines: pl.Expr) -> pl.Expr:
    """Tell texts with a frequent English word and none of the frequent words of its neighbours."""
    n_bytes, n_chars = lines.str.len_bytes(), lines.str.len_chars()
    is_latin = (n_bytes - n_chars) * _ASCII_SHARE <= n_chars
    return is_latin & lines.str.contains(_ENGLISH) & ~lines.str.contains(_FOREIGN)


def _weigh(text: pl.Expr) -> pl.Expr:
    """Decide by script, and among Latin languages by the number of function words."""
    cyrillic, latin = text.str.count_matches(_CYRILLIC), text.str.count_matches(_LATIN)
    han, kana = text.str.count_matches(_HAN), text.str.count_matches(_KANA)
    letters = text.str.count_matches(r"\p{L}")
    east = 4 * (han + kana)  # one of these says as much as several Latin letters
    known = latin + cyrillic + han + kana
    return (
        pl.when(letters == 0)
        .then(pl.lit(None, pl.String))
        .when(letters > 2 * known)
        .then(pl.lit("other"))
        .when((kana > 0) & (east >= latin))
        .then(pl.lit("ja"))
        .when((han > 0) & (east >= latin))
        .then(pl.lit("zh"))
        .when((cyrillic > 0) & (2 * cyrillic >= latin))
        .then(pl.when(text.str.contains(_NOT_RUSSIAN)).then(pl.lit("uk")).otherwise(pl.lit("ru")))
        .otherwise(_weigh_latin(text))
    )


def _weigh_latin(text: pl.Expr) -> pl.Expr:
    scores = {code: text.str.count_matches(_evidence(code)) for code in FUNCTION_WORDS}
    best = pl.max_horizontal(scores.values())
    chain = pl.when(pl.lit(value=False)).then(pl.lit("en"))
    for code, score in scores.items():  # without any, all are equal: English
        chain = chain.when(score == best).then(pl.lit(code))
    return chain.otherwise(pl.lit("en"))


def _evidence(code: str) -> str:
    words = rf"(?-u:\b)(?:{'|'.join(dict.fromkeys(FUNCTION_WORDS[code].split()))})(?-u:\b)"
    return f"{words}|{_EXTRA[code]}" if code in _EXTRA else words
