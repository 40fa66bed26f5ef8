"""Labels of texts: the frames, the order, every way the same, and the texts that break such tools."""

import json

import polars as pl
import pytest

from rcll.frames import LABELS, TEXTS
from rcll.stages import classify
from rcll.stages.classify import UNSUPPORTED, ClassifyParams, classify_units
from rcll.taxonomy import Rule, Taxonomy, load_taxonomy
from rcll.taxonomy.dialect import translate
from rcll.walk.lines import texts_of


def rule(name: str, pattern: str, dimension: str = "room", label: str = "", **more) -> Rule:
    """A rule named after its label unless told otherwise."""
    return Rule(id=name, dimension=dimension, label=label or name, pattern=translate(pattern), **more)


SMALL = Taxonomy(
    (
        rule("auth", r"\btokens?\b", tier="specific", unless=translate("carousel"), language="en"),
        rule("api", r"\bapi\b", language="en"),
        rule("tax", r"\bsteuer", language="de"),
        rule("warning", r"<S>never", "hall", tier="specific", language="en"),
        rule("gate", r"\bnever\b", "layer", "0", language="en"),
    )
)


@pytest.fixture(scope="module")
def taxonomy() -> Taxonomy:
    """The shipped rules."""
    return load_taxonomy()


def frame(*texts: str | None) -> pl.DataFrame:
    """Texts as frames.TEXTS, numbered."""
    return pl.DataFrame({"unit_id": [f"u{n}" for n in range(len(texts))], "text": texts}, schema=TEXTS)


def label(taxonomy: Taxonomy, *texts: str | None, use_layers: bool = False) -> list[dict]:
    """Labels of texts as dictionaries."""
    return classify_units(frame(*texts), taxonomy, ClassifyParams(use_layers=use_layers)).to_dicts()


def test_a_label_names_its_rules_and_language():
    """Room and hall come with the rule that gave them, its tier and the language; layers are off."""
    assert label(SMALL, "The API is down. Never rotate the token by hand.") == [
        {
            "unit_id": "u0", "room": "auth", "hall": "warning", "layer": 2, "room_rule": "auth", "hall_rule": "warning",
            "layer_rule": None, "room_tier": "specific", "hall_tier": "specific", "language": "en",
        }
    ]  # fmt: skip


def test_layers_are_decided_when_asked_for():
    """With layers on, the first layer rule decides; without a match it is layer 2 by no rule."""
    first, second = label(SMALL, "Never do it", "Do it", use_layers=True)
    assert (first["layer"], first["layer_rule"]) == (0, "gate")
    assert (second["layer"], second["layer_rule"]) == (2, None)


@pytest.mark.parametrize("text", [None, "", "   \n\t", "\x00" * 1_000_000, "a" * 10_000_000, "🙂🙂🙂", "\u200b\ufeff"])
def test_texts_without_words_get_the_fallback(text):
    """Missing, empty, blank, unreadable and endless texts are general / fact, by no rule."""
    found = label(SMALL, text)[0]
    assert (found["room"], found["hall"], found["layer"]) == ("general", "fact", 2)
    assert found["room_rule"] is found["hall_rule"] is found["room_tier"] is None


def test_endless_texts_have_few_and_many_of_a_kind():
    """What breaks a text alone breaks it among others neither: the same label for each, in every company."""
    texts = [None, "", " ", "\x00" * 100_000, "a" * 200_000, "🙂" * 50, "the token", "a " * 100_000 + "token"]
    alone = [label(SMALL, text)[0] | {"unit_id": ""} for text in texts]
    assert [found["room"] for found in alone] == ["general"] * 6 + ["auth", "general"]
    many = classify_units(frame(*texts * 5), SMALL).with_columns(unit_id=pl.lit("")).to_dicts()
    assert many == alone * 5


def test_lone_surrogates_from_json_survive():
    """Text that JSON lets through and UTF-8 does not is labelled like any other."""
    texts = texts_of([json.loads('{"text": "the \\ud800 token"}')])
    assert classify_units(texts, SMALL)["room"].to_list() == ["auth"]


def test_languages_see_their_own_rules():
    """German texts see German rules and specific English rooms; other languages only these."""
    found = label(
        SMALL,
        "Die Steuer ist fällig und never wird sie gezahlt",
        "Das Token ist abgelaufen und die API nicht",
        "Il token non è valido e la API non risponde",
        "Сотрудник взял token для API",
    )
    assert [(f["language"], f["room"], f["hall"]) for f in found] == [
        ("de", "tax", "fact"),
        ("de", "auth", "fact"),
        (UNSUPPORTED, "auth", "fact"),
        (UNSUPPORTED, "auth", "fact"),
    ]


def test_a_pack_of_its_own_makes_a_language_supported():
    """A user's rules for Italian make Italian a language of the taxonomy."""
    own = Taxonomy(SMALL.base, before=(rule("it.tax", r"\bfattura", label="tax", language="it"),))
    assert [(f["language"], f["room"]) for f in label(own, "La fattura non è stata pagata e il cliente aspetta")] == [
        ("it", "tax")
    ]


def test_no_texts():
    """An empty frame gives an empty frame of the right schema."""
    assert classify_units(frame(), SMALL).schema == LABELS


MIXED = [
    "Never share the token", "the API", None, "Die Steuer ist nicht fällig", "carousel token", "", "plain words here",
    "NEVER EVER. The tokens are gone.", "Сотрудник", "今天", "x" * 3_000 + " token",
]  # fmt: skip


def test_order_and_company_do_not_matter():
    """A text gets the same label alone, among many, and in any order; rows come back in the order given."""
    alone = [label(SMALL, text, use_layers=True)[0] | {"unit_id": ""} for text in MIXED]
    many = classify_units(frame(*MIXED * 40), SMALL, ClassifyParams(use_layers=True))
    assert many.schema == LABELS
    assert many["unit_id"].to_list() == [f"u{n}" for n in range(len(MIXED) * 40)]
    assert many.with_columns(unit_id=pl.lit("")).to_dicts() == alone * 40
    shuffled = frame(*MIXED).sample(fraction=1.0, shuffle=True, seed=3)
    assert classify_units(shuffled, SMALL).sort("unit_id").equals(classify_units(frame(*MIXED), SMALL).sort("unit_id"))


def test_batches_and_threads_do_not_matter(monkeypatch):
    """Cut into batches by number or by bytes, the labels are the same."""
    texts = frame(*MIXED * 20)
    whole = classify_units(texts, SMALL)
    monkeypatch.setattr(classify, "_MOST_TEXTS", 7)
    assert classify_units(texts, SMALL).equals(whole)
    monkeypatch.setattr(classify, "_MOST_TEXTS", 1_000_000)
    monkeypatch.setattr(classify, "_MOST_BYTES", 100)
    assert classify_units(texts, SMALL).equals(whole)


def test_lazy_frames_are_labelled_too():
    """A lazy frame gives the same labels."""
    texts = frame(*MIXED * 20)
    assert classify_units(texts.lazy(), SMALL).equals(classify_units(texts, SMALL))


def test_shipped_rules_give_the_same_in_every_way(taxonomy):
    """Labels by the shipped rules are the same one by one and all at once, layers included."""
    hits = [text for r in taxonomy.rules for text in r.hits[:1]][::30]
    params = ClassifyParams(use_layers=True)
    many = classify_units(frame(*hits), taxonomy, params).drop("unit_id")
    alone = pl.concat(classify_units(frame(hit), taxonomy, params) for hit in hits).drop("unit_id")
    assert many.equals(alone)


# The inputs that users suffer from, by the shipped rules.

LOOKALIKES = [
    ("The author rewrote the last chapter of the novel.", "auth"),
    ("Rapid growth of the seedlings surprised the gardener.", "api"),
    ("Please build the guide rail of the shelf by hand.", "ui"),
    ("The three of them went to the lake.", "hr"),
    ("She pays the syntax teacher in cash.", "tax"),
    ("The reagent in the flask turned blue.", "agent"),
    ("Our travel agent found a cheap flight to Lisbon.", "agent"),
    ("The carousel token costs two crowns.", "auth"),
    ("He gave three interviews to the local paper about his novel.", "ui"),
]


@pytest.mark.parametrize(("text", "wrong"), LOOKALIKES)
def test_lookalikes_do_not_decide(taxonomy, text, wrong):
    """A word inside another word, or with another meaning, gives no room."""
    assert label(taxonomy, text)[0]["room"] != wrong


def test_fine_is_no_warning(taxonomy):
    """'Fine' as OK does not make a warning."""
    assert label(taxonomy, "The new layout looks fine to everybody.")[0]["hall"] != "warning"


@pytest.mark.parametrize(
    "text",
    [
        "We moved the portal to OAuth2 last week.",
        "AuthN happens at the edge proxy.",
        "The authorisation of service accounts is checked by the gateway.",
    ],
)
def test_variants_of_auth_are_found(taxonomy, text):
    """Spellings that a list of plain words misses."""
    assert label(taxonomy, text)[0]["room"] == "auth"


def test_a_curly_apostrophe_is_an_apostrophe(taxonomy):
    """don’t is read as don't."""
    straight, curly = label(taxonomy, "Don't deploy on Friday.", "Don’t deploy on Friday.")
    assert straight["hall"] == "warning"
    assert curly | {"unit_id": ""} == straight | {"unit_id": ""}


NOISE = [
    "**Never** deploy on _Friday_.",
    "Never deploy on Friday.\n```\nx = 1\n```",
    "\x1b[31mNever\x1b[0m deploy on Friday.",
    "Never deploy on Friday. " + "QUJD" * 40,
    "Never de\u00adploy on Fri\u200bday.",
    "> Never deploy on Friday.",
    'Never deploy on Friday.\nTraceback (most recent call last):\n  File "a.py", line 3, in f\nKeyError: 7',
    "- Never deploy on Friday.",
    "“Never deploy on Friday.”",
]


@pytest.mark.parametrize("text", NOISE)
def test_noise_does_not_change_the_label(taxonomy, text):
    """Markdown, escapes, fences, base64 and invisible characters leave the label as it is."""
    plain, noisy = label(taxonomy, "Never deploy on Friday.", text)
    assert (plain["room"], plain["hall"]) == ("deployment", "warning")
    assert (noisy["room"], noisy["hall"]) == (plain["room"], plain["hall"])


NEGATION = [
    ("We never decided to use Redis.", "decision"),
    ("He asked whether to migrate the customer table.", "decision"),
    ("Marta has never been to Iceland.", "warning"),
]


@pytest.mark.parametrize(("text", "wrong"), NEGATION)
def test_negation_and_quotation(taxonomy, text, wrong):
    """What was not decided is no decision, and not every 'never' is a warning."""
    assert label(taxonomy, text)[0]["hall"] != wrong


def test_do_not_in_capitals_is_a_warning(taxonomy):
    """'do NOT deploy' warns as 'do not deploy' does."""
    assert label(taxonomy, "Please do NOT deploy on Friday.")[0]["hall"] == "warning"


LANGUAGES = [
    ("de", "Das Passwort des Administrators darf niemals per E-Mail verschickt werden.", "auth"),
    ("fr", "Le mot de passe de l'administrateur ne doit jamais être envoyé par courriel.", "auth"),
    ("es", "La contraseña del administrador no se debe enviar nunca por correo.", "auth"),
    ("ru", "Пароль администратора никогда нельзя отправлять по почте.", "auth"),
    ("zh", "管理员密码绝不能通过邮件发送。", "auth"),
    (UNSUPPORTED, "Il contratto non è stato firmato e la riunione è stata rimandata.", "general"),
]


@pytest.mark.parametrize(("language", "text", "room"), LANGUAGES)
def test_languages_by_the_shipped_rules(taxonomy, language, text, room):
    """Texts of each shipped language are filed; an unsupported one is counted as such."""
    found = label(taxonomy, text)[0]
    assert (found["language"], found["room"]) == (language, room)


def test_spellings_of_one_text(taxonomy):
    """Turkish capitals, decomposed accents, zero-width spaces and soft hyphens change nothing."""
    spellings = [
        "The invoice was paid",
        "The İnvoice was paid",
        "The in\u200bvoice was paid",
        "The in\u00advoice was paid",
    ]
    assert len({found["room"] for found in label(taxonomy, *spellings)}) == 1
    composed, decomposed = label(
        taxonomy, "La décision est prise pour la base", "La de\u0301cision est prise pour la base"
    )
    assert composed | {"unit_id": ""} == decomposed | {"unit_id": ""}
