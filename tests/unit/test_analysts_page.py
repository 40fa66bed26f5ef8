"""The page for analysts: each of its questions can be asked."""

import re
from pathlib import Path

from rcll.analyst.duck import ask, open_snapshots
from tests.unit.palace import unit, write_snapshot

PAGE = Path(__file__).parents[2] / "docs" / "analysts.md"


def test_every_question_of_the_page_is_answered(tmp_path):
    """Each is a statement that the locked reader takes, by itself and without a database."""
    questions = re.findall(r'^\$ rcll sql "(.+?)"$', PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(questions) == 11
    write_snapshot(tmp_path, "20260602T023000000Z", {"units": [unit(1), unit(2, "bob", room="tax")]})
    with open_snapshots(str(tmp_path)) as connection:
        answers = {question: ask(connection, question)[1].fetchall() for question in questions}
    assert answers["FROM rooms_over(200)"] == []
    assert [rows for question, rows in answers.items() if "rooms_by_halls" in question] == [
        [("auth", 1, 0, 0, 0, 0, 1), ("tax", 1, 0, 0, 0, 0, 1)]
    ]
