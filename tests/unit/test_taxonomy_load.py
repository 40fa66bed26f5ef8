"""Taxonomy files: what is read, in which order, and what is refused with file and line."""

from pathlib import Path

import pytest

from rcll.errors import InputError
from rcll.taxonomy import load_taxonomy
from rcll.taxonomy.load import PACKS, read_packs

RULE = "{ id = 'a', room = 'auth', pattern = 'token', hits = ['token'] }"


def changed(old: str, new: str) -> str:
    """The rule with something else in it."""
    return RULE.replace(old, new)


@pytest.fixture
def write(tmp_path):
    """Write a taxonomy file and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "own.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_shipped_packs_are_loaded():
    """Without a file, all shipped languages are there, with every room and hall of the specification."""
    taxonomy = load_taxonomy()
    assert (
        set(taxonomy.languages) == {file.removesuffix(".toml") for file in (f.name for f in read_packs())} == set(PACKS)
    )
    assert set(taxonomy.rooms) == {
        "auth",
        "pipeline",
        "infrastructure",
        "deployment",
        "schema",
        "api",
        "ui",
        "tax",
        "hr",
        "legal",
        "compliance",
        "monitoring",
        "agent",
        "general",
    }
    assert set(taxonomy.halls) == {"warning", "decision", "procedure", "event", "preference", "discovery", "fact"}


def test_a_file_replaces_the_shipped_rules(write):
    """A file that extends nothing stands alone; every text sees its rules."""
    taxonomy = load_taxonomy(write(f"rules = [{RULE}]"))
    assert [rule.id for rule in taxonomy.rules] == ["a"]
    assert taxonomy.rooms == ("auth", "general")
    assert [rule.id for rule in taxonomy.rules_for("fr", "room")] == ["a"]


@pytest.mark.parametrize(("place", "index"), [("", 0), ('place = "before"', 0), ('place = "after"', -1)])
def test_a_file_extends_the_shipped_rules(write, place, index):
    """Own rules stand before all others, or behind them; a new room takes one line."""
    taxonomy = load_taxonomy(write(f'extends = "default"\n{place}\nrules = [{changed("auth", "garden")}]'))
    assert "garden" in taxonomy.rooms
    for language in ("en", "de", None):
        assert taxonomy.rules_for(language, "room")[index].id == "a"


def test_what_a_language_sees(write):
    """Own language first, then the English room rules of tier specific, and nothing else of English."""
    taxonomy = load_taxonomy()
    rules = taxonomy.rules_for("de", "room")
    languages = [rule.language for rule in rules]
    assert languages == sorted(languages)
    assert {rule.tier for rule in rules if rule.language == "en"} == {"specific"}
    assert {rule.language for rule in taxonomy.rules_for("de", "hall")} == {"de"}
    assert {rule.language for rule in taxonomy.rules_for(None, "hall")} == set()
    own = load_taxonomy(write(f'extends = "default"\nlanguage = "it"\nrules = [{RULE}]'))
    assert own.rules_for("it", "room")[0].id == "a"
    assert "a" not in {rule.id for rule in own.rules_for("en", "room")}


def test_the_hash_follows_what_can_change_a_label(write):
    """Another pattern, order or tier is another taxonomy; examples and comments are not."""
    other, weak = changed("'a'", "'b'"), changed("}", ", tier = 'weak' }")
    base = load_taxonomy(write(f"rules = [{RULE}, {other}]")).hash
    assert len(base) == 32
    same = other.replace("['token']", "['a token']")
    assert load_taxonomy(write(f"# comment\nrules = [{RULE}, {same}]")).hash == base
    for rules in (f"{other}, {RULE}", RULE, f"{weak}, {other}"):
        assert load_taxonomy(write(f"rules = [{rules}]")).hash != base


REFUSED = [
    ("rules = [", 1, "this is not TOML"),
    ("", 0, "no rules"),
    ("rules = []", 0, "no rules"),
    (f"tpyo = 1\nrules = [{RULE}]", 1, "unknown key 'tpyo'"),
    (f'extends = "other"\nrules = [{RULE}]', 1, 'expected "default"'),
    (f'place = "top"\nrules = [{RULE}]', 1, '"before" or "after"'),
    (f'language = "English"\nrules = [{RULE}]', 1, "expected a code"),
    (f"words.A = 1\nrules = [{RULE}]", 1, "words must be patterns or lists of patterns"),
    (f"words.A = '<A>'\nrules = [{RULE}]", 1, "contains itself"),
    (f"rules = [\n{RULE},\n{RULE}]", 3, "the id is used before"),
    ("rules = [\n{ room = 'auth', pattern = 'x', hits = ['x'] }]", 0, "rule number 1 has no id"),
    *(
        (f"rules = [\n{changed(old, new)}]", 2, reason)
        for old, new, reason in (
            ("room", "rooom", "unknown key 'rooom'"),
            ("room =", "hall = 'fact', room =", "exactly one of room, hall, layer"),
            ("'auth'", "'Auth'", "in lower case"),
            ("room = 'auth'", "layer = 4", "expected 0, 1, 2 or 3"),
            ("room = 'auth'", "layer = true", "expected 0, 1, 2 or 3"),
            ("pattern", "within = 0, pattern", "within 0"),
            ("pattern", "tier = 'top', pattern", "specific, word, weak"),
            ("pattern", "unless = 1, pattern", "unless 1"),
            ("['token']", "[]", "no hits"),
            ("['token']", "'token'", "expected a list of strings"),
            ("'token',", "1,", "no pattern"),
            ("'token',", "'to(ken',", "no regular expression: unclosed group"),
            ("'token',", "'(?=token)',", "look-around"),
            ("'token',", "'token$',", "anchor '$'"),
        )
    ),
]


@pytest.mark.parametrize(("text", "line", "reason"), REFUSED)
def test_what_cannot_be_used_is_refused_with_its_line(write, text, line, reason):
    """The first problem is told as file:line: what was found, what is expected."""
    path = write(text)
    with pytest.raises(InputError) as caught:
        load_taxonomy(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_id_of_the_shipped_rules_is_refused(write):
    """Ids are unique over all files: the ledger stores them."""
    shipped = load_taxonomy().rules[0].id
    taken = changed("'a'", f"'{shipped}'")
    with pytest.raises(InputError, match="the id is used in"):
        load_taxonomy(write(f'extends = "default"\nrules = [{taken}]'))


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, content):
    """A missing file and one that is not text are refused by name."""
    path = tmp_path / "own.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"own\.toml' cannot be read"):
        load_taxonomy(path)
