"""Answers of a model are parsed, cleaned and checked against the notes that they came from."""

import json

import pytest

from rcll.models.answer import AnswerFault, read_answer
from rcll.models.support import draws_on_sources, is_negated, missing_items

NOTES = [
    "The staging database is refreshed from a scrubbed dump every Sunday at 03:00.",
    "On 2024-03-08 the refresh of staging failed: the dump had 0 rows of 1,250,000. Tomasz reran it.",
    "Never restore the production dump into staging without scrubbing it (see PORTAL-17, weekly_dump v4.2).",
]
GOOD = (
    "Staging is refreshed every Sunday; on 8 March 2024 it failed and Tomasz reran it. Never restore unscrubbed dumps."
)


def _answer(title="Refresh of staging", summary=GOOD, used=(1, 2, 3)):
    return json.dumps({"title": title, "summary": summary, "used": list(used)})


def _fault_of(content, notes=NOTES):
    with pytest.raises(AnswerFault) as caught:
        read_answer(content, notes)
    return caught.value.kind


@pytest.mark.parametrize(
    "content",
    [
        _answer(),
        f"```json\n{_answer()}\n```",
        f"```\n{_answer()}```",
        f"Here it is:\n{_answer()}\nI hope this helps.",
        f"<think>{{maybe}} so</think>\n{_answer()}",
    ],
    ids=["bare", "fenced", "fenced-unnamed", "in-prose", "after-thoughts"],
)
def test_accepts_the_object_in_its_wrappings(content):
    """The JSON object counts, whether bare, in a Markdown fence, in a sentence or after thoughts."""
    checked = read_answer(content, NOTES)
    assert (checked.title, checked.text, checked.used, checked.flags) == ("Refresh of staging", GOOD, (1, 2, 3), ())


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        (_answer(summary=""), "bad-json"),
        (_answer(summary=" \u0000 "), "empty"),
        ("I'm sorry, I cannot do that.", "bad-json"),
        (_answer()[:60], "bad-json"),
        ("[1, 2]", "bad-json"),
        ('{"title": "x"}', "bad-json"),
        ('{"title": "x", "summary": ["y"], "used": [1]}', "bad-json"),
        ('{"title": "x", "summary": "y", "used": "all"}', "bad-json"),
        ("{" * 100_000 + "}" * 100_000, "bad-json"),
        (_answer(used=[1, 4]), "invented-sources"),
        (_answer(used=[0]), "invented-sources"),
        (_answer(used=[]), "invented-sources"),
        (_answer(summary="staging " * 200), "too-long"),
        (_answer(summary="HACKED"), "off-topic"),
        (_answer(summary="The weather is fine and the sun shines."), "off-topic"),
        (_answer(summary="Staging is refreshed by Olena at 05:30 every Sunday."), "unsupported"),
    ],
)
def test_refuses(content, kind):
    """Each unusable answer is refused under its own name."""
    assert _fault_of(content) == kind


def test_used_numbers_are_sorted_and_single():
    """Sources are a set, in ascending order, whatever order the model lists."""
    assert read_answer(_answer(used=[3, 1, 3]), NOTES).used == (1, 3)


def test_one_missing_item_flags():
    """A single number, name or negation that no source holds is flagged, not fatal."""
    checked = read_answer(_answer(summary="Staging is refreshed every Sunday by Olena. Never skip it."), NOTES)
    assert checked.flags == ("not in the sources: Olena",)


def test_text_is_one_clean_masked_paragraph():
    """Line breaks, NUL and control characters go, and a secret that the model repeats is masked."""
    summary = "Staging is\n\nrefreshed\u0000 every Sunday\u001b[31m; never restore dumps with password=hunter2 in it."
    checked = read_answer(_answer(title="  Refresh\tof " + "staging " * 30, summary=summary), NOTES)
    expected = "Staging is refreshed every Sunday [31m; never restore dumps with password=[secret] in it."
    assert checked.text == expected
    assert len(checked.title) <= 80
    assert checked.title.endswith("…")


MISSING = [
    # (summary, what no source holds)
    ("Refreshed at 3:00 on 8 March, 1250000 rows.", []),
    ("Refreshed at 04:00.", ["4"]),
    ("Rows: 1 250.", ["1", "250"]),
    ("See PORTAL-17 and weekly_dump v4.2.", []),
    ("It was in April, said Tomasz.", ["April"]),
    ("See PORTAL-18.", ["18"]),
    ("See weekly_tables v4.3.", ["4.3", "weekly_tables"]),
    ("Tomasz's refresh. Staging again.", []),
    ("It was Yuki, said Tomasz.", ["Yuki"]),
]


@pytest.mark.parametrize(("summary", "missing"), MISSING)
def test_numbers_and_names(summary, missing):
    """Numbers, identifiers and capitalised words inside a sentence have to stand in a source."""
    assert missing_items("Never", f"Never mind. {summary}", NOTES, NOTES) == missing


def test_negations():
    """A negation that no source holds is missing, and so is the one that all sources hold."""
    positive, negative = ["Deploy on Friday is allowed."], ["Never deploy on Friday.", "Don’t deploy on Friday!"]
    assert missing_items("Deploy", "Do not deploy on Friday.", positive, positive) == ["a negation"]
    assert missing_items("Deploy", "Deploy on Friday.", negative, negative) == ["the negation of all sources"]
    assert missing_items("Deploy", "Avoid deploying on Friday.", negative, negative) == []


@pytest.mark.parametrize(
    "text",
    [
        "We don't",
        "we don’t",
        "Never",
        "nicht am Freitag",
        "n'est pas",
        "no se debe",
        "не удалять",
        "不要部署",
        "削除しない",
    ],
)
def test_is_negated_in_many_languages(text):
    """Negation words of the larger languages are known, with straight and curly apostrophes."""
    assert is_negated(text)


@pytest.mark.parametrize("text", ["Deploy on Friday", "the knot and the note", "Auf Freitag", "удалить", "部署"])
def test_is_not_negated(text):
    """Words that only look like a negation are none."""
    assert not is_negated(text)


def test_german_nouns_are_no_names():
    """German capitalises every noun: only identifiers are checked there."""
    notes = ["Die Datenbank wird sonntags mit dem Skript refresh_db erneuert und geprüft."] * 2
    text = "Das Skript refresh_db erneuert die Datenbanken und die Prüfung ist inbegriffen."
    assert missing_items("Erneuerung", text, notes, notes) == []


@pytest.mark.parametrize(
    ("text", "notes", "expected"),
    [
        ("the dump", ["a dump truck", "dumping rows"], True),
        ("the dump", ["a dump truck", "other words"], False),
        ("the dump", ["a dump truck"], True),
        ("数据库每周刷新", ["数据库刷新失败", "每周刷新"], True),
        ("数据库", ["天气很好", "太阳"], False),
        ("Обновление базы", ["обновления нет", "обновлено"], True),
        ("DB up", ["DB up", "DB up"], True),
    ],
)
def test_draws_on_sources(text, notes, expected):
    """A summary shares a word stem or a pair of signs with two of its notes, or with the only one."""
    assert draws_on_sources(text, notes) is expected
