"""Tables as people see them, at whatever width."""

import io

import pytest
from rich.console import Console

from rcll.cli import output

LONG = "The weekly meeting took 58 minutes; its notes were shared with the whole team."
ROWS = [("alice-in-the-office", "general", 12, LONG), ("bob", "[red]", None, "short")]


def _printed(monkeypatch, width, rows=ROWS, columns=("bank", "room", "units", "summary")):
    stream = io.StringIO()
    monkeypatch.setattr(output, "out", Console(file=stream, width=width, highlight=False))
    output.print_table("a title", columns, rows)
    return stream.getvalue().splitlines()


def test_wide_terminal_shows_a_table(monkeypatch):
    """Short cells stay on one line, and what looks like markup is text."""
    lines = _printed(monkeypatch, 120)
    assert any("alice-in-the-office" in line and "general" in line and "12" in line for line in lines)
    assert any("[red]" in line for line in lines)


def test_narrow_terminal_shows_records(monkeypatch):
    """Where long texts would become a column of single words, each row is a few lines; unset cells are left out."""
    lines = _printed(monkeypatch, 60)
    assert lines[:2] == ["a title", "bank alice-in-the-office, room general, units 12"]
    assert " ".join(line.strip() for line in lines[2:4]) == f"summary: {LONG}"
    assert [line.strip() for line in lines[4:]] == ["bank bob, room [red]", "summary: short"]
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize("width", [20, 40])
def test_numbers_stay_a_table(monkeypatch, width):
    """Short cells alone are folded where they must be, and nothing is cut."""
    text = "".join(_printed(monkeypatch, width, [("a" * 20, 1234567)], ("bank", "units")))
    assert text.count("a") - "a title".count("a") - "bank".count("a") == 20
    assert sum(text.count(digit) for digit in "1234567") == 7


def test_text_of_a_memory_is_shown_and_not_obeyed(monkeypatch, capsys):
    """Escape sequences in cells and lines change no colour and no title of the terminal; line ends stay."""
    hostile = "\x1b]0;owned\x07\x1b[31mred\x9b2J\rback"
    printed = _printed(monkeypatch, 200, [("a", hostile)], ("bank", "text"))
    monkeypatch.undo()
    output.out.print(f"one\n{hostile}", markup=False)
    said = capsys.readouterr().out
    for text in ("".join(printed), said):
        assert "red" in text
        assert not set(text) & {"\x1b", "\x07", "\x9b", "\r"}
    assert said.startswith("one\n")


def test_lines_of_a_file_are_not_broken(capsys):
    """Where standard output is no terminal a command longer than a screen stays one line that can be pasted."""
    output.out.print("rcll " + "word " * 100)
    output.print_table("", ("what to do",), [("DROP INDEX CONCURRENTLY " + "x" * 150,)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("rcll " + "word " * 100)
    assert any("DROP INDEX CONCURRENTLY " + "x" * 150 in line for line in lines)
