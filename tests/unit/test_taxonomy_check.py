"""What `rcll taxonomy check` finds."""

import pytest

from rcll.taxonomy.check import check_taxonomy


@pytest.fixture
def findings(tmp_path):
    """Check rules, one a line from line 2 on, and return the findings as (line, message)."""

    def check(*rules: str, head: str = "") -> list[tuple[int, str]]:
        path = tmp_path / "own.toml"
        path.write_text(head + "rules = [\n" + ",\n".join(rules) + "]\n", encoding="utf-8")
        return [(finding.line, finding.message) for finding in check_taxonomy(path)]

    return check


def rule(name: str, pattern: str, *, hits: str = "['the token']", label: str = "room = 'auth'", more: str = "") -> str:
    """One line of a taxonomy file."""
    return f"{{ id = '{name}', {label}, pattern = '{pattern}', hits = {hits}{more} }}"


def test_the_shipped_packs_have_no_findings():
    """Every shipped rule compiles, can be reached, and keeps its own examples."""
    assert [str(finding) for finding in check_taxonomy()] == []


def test_a_good_file_has_no_findings(findings):
    """Rules that work give nothing to say."""
    assert findings(rule("a", r"\btokens?\b"), rule("b", r"\bthe\b", label="hall = 'fact'")) == []


def test_several_findings_come_sorted_by_line(findings):
    """All that is wrong is told at once."""
    found = findings(rule("a", "to(ken"), rule("b", "(?=x)token"), rule("c", "the token"))
    assert [line for line, _ in found] == [2, 3]


def test_a_pattern_that_matches_the_empty_string(findings):
    """Patterns that match everywhere, also by a boundary alone, are refused."""
    for pattern in ("(?:token)?", r"\b", "x*", r"token|\B"):
        assert "empty string" in findings(rule("a", pattern))[0][1]
    assert "unless matches the empty string" in findings(rule("a", "token", more=", unless = 'x*'"))[0][1]


def test_failing_examples(findings):
    """A hit that is not matched and a miss that is are told with the text as the rule sees it."""
    found = findings(rule("a", "token", hits="['a TOKEN', 'tok']", more=", misses = ['**Token**']"))
    assert len(found) == 2
    assert "does not match its hit 'tok'" in found[0][1]
    assert "matches its miss '**Token**', read as '\\ntoken\\n'" in found[1][1]


def test_unless_and_within_count_for_examples(findings):
    """Examples are judged by the whole rule, not by its pattern alone."""
    assert "does not match" in findings(rule("a", "token", more=", unless = 'the'"))[0][1]
    assert "does not match" in findings(rule("a", "token", more=", within = 3", hits="['so then a token']"))[0][1]


SHADOWED = [
    (rule("a", r"\btokens?\b"), rule("b", r"\btoken\b")),
    (rule("a", r"\btok\w*"), rule("b", r"\btokens?\b|\btoken ring\b")),
    (rule("a", "token"), rule("b", r"\btoken\b", more=", unless = 'x'")),
]


@pytest.mark.parametrize(("first", "second"), SHADOWED)
def test_a_shadowed_rule(findings, first, second):
    """A rule is told if an earlier one takes all that it matches."""
    found = findings(first, second)
    assert [line for line, _ in found] == [3]
    assert "never reached: 'a' (line 2)" in found[0][1]


NOT_SHADOWED = [
    (rule("a", r"\btoken\b"), rule("b", "token")),
    (rule("a", "token", more=", unless = 'x'"), rule("b", r"\btoken\b")),
    (rule("a", "token", more=", within = 9"), rule("b", r"\btoken\b")),
    (rule("a", "token"), rule("b", "token", label="hall = 'fact'")),
    (rule("a", "token"), rule("b", "token|the")),
]


@pytest.mark.parametrize(("first", "second"), NOT_SHADOWED)
def test_a_rule_that_can_still_fire(findings, first, second):
    """Nothing is told where the later rule may match more, or the earlier one is restrained."""
    assert findings(first, second) == []


def test_a_rule_that_one_language_still_needs(findings):
    """A rule for all languages is not told for an earlier one that only one language sees."""
    twin = rule("own", r"\bcsrf\b", hits="['a csrf']")
    assert findings(twin, head='extends = "default"\nplace = "after"\n') == []


def test_labels_that_differ_by_a_stroke(findings):
    """Two spellings of one room are told at the second one."""
    found = findings(rule("a", "token", label="room = 'api-docs'"), rule("b", "the", label="room = 'api_docs'"))
    assert [line for line, _ in found] == [3]
    assert "differs from 'api-docs'" in found[0][1]


def test_labels_that_differ_by_case(findings):
    """Upper case in a label is refused, so that no two labels differ by it."""
    assert "in lower case" in findings(rule("a", "token"), rule("b", "the", label="room = 'Auth'"))[0][1]


def test_a_rule_that_the_shipped_rules_shadow(findings):
    """A file placed after the shipped rules is checked together with them."""
    shipped = r"\bjwts?\b"
    found = findings(rule("own", shipped, hits="['a jwt']"), head='extends = "default"\nplace = "after"\n')
    assert len(found) <= 1
    assert all("never reached" in message for _, message in found)


@pytest.mark.parametrize("text", [None, "", "rules = ["])
def test_missing_empty_and_broken_files(tmp_path, text):
    """There is always a finding, never an exception."""
    path = tmp_path / "own.toml"
    if text is not None:
        path.write_text(text)
    assert len(check_taxonomy(path)) == 1


def test_five_thousand_rules(findings):
    """Very many rules work, and are told to be untested for speed."""
    found = findings(*(rule(f"r{n}", rf"\bword{n}\b", hits=f"['a word{n}']") for n in range(5_000)))
    assert [message for _, message in found] == ["5000 rules; speed was measured up to 2000"]
