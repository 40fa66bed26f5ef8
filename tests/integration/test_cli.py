"""The program as a user types it: exit codes, one-line errors, nothing changed after a wrong input."""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from rcll.store.catalog import read_tenants
from rcll.store.lease import hold_banks
from rcll.store.ledger import finish_run, start_run
from rcll.store.migrate import migrate
from tests.integration.places import fill, unit_id


@pytest.fixture
def legacy(make_template, clone):
    """A Hindsight-like database with two banks, not migrated."""
    return clone(make_template("cli", lambda database: fill(database, "hindsight")))


@pytest.fixture
def rcll(tmp_path):
    """Return ``rcll(*words, input=None, **environment)``: exit code, standard output and standard error."""

    def run(*words: str, stdin: str = "", **environment: str):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("RCLL_", "PREFECT_"))}
        done = subprocess.run(
            [Path(sys.executable).parent / "rcll", *words],
            env=clean | {"RCLL_HOME": str(tmp_path / "home")} | environment,
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def _refused(outcome, code: int, *expected: str) -> None:
    """One line on standard error, with what was found and what to do, and the exit code of its kind."""
    found, _, err = outcome
    lines = [line for line in err.splitlines() if line.strip()]
    assert found == code, err
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    for words in expected:
        assert words in lines[0]


def test_version_and_help(rcll):
    """--version and --help answer without a database."""
    assert rcll("--version")[1].startswith("rcll 0.")
    code, out, _ = rcll("--help", COLUMNS="200")
    assert code == 0
    for command in ("demo", "plan", "reorganize", "status", "explain", "classify", "eval", "label"):
        assert command in out


@pytest.mark.parametrize("words", [["status"], ["plan"], ["reorganize"], ["migrate"]])
def test_wrong_address(rcll, words):
    """Every command that needs the database says in one line that nobody answers, without the password."""
    outcome = rcll(*words, RCLL_DATABASE_URL="postgresql://me:hunter2@127.0.0.1:9/none")
    _refused(outcome, 1, "127.0.0.1:9", "RCLL_DATABASE_URL")
    assert "hunter2" not in outcome[2]


def test_database_without_pgvector(rcll, admin, server):
    """A database without the extension is refused with the command that helps."""
    name = f"bare_{uuid4().hex}"
    admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        _refused(rcll("plan", RCLL_DATABASE_URL=server.url(name)), 1, "pgvector", "CREATE EXTENSION vector")
    finally:
        admin.execute(f"DROP DATABASE {name}")


def test_unknown_schema_and_bank(rcll, legacy):
    """A schema or a bank that does not exist is named, with what there is."""
    _refused(rcll("plan", "--schema", "nowhere", RCLL_DATABASE_URL=legacy.url), 2, "'nowhere'", "public")
    _refused(rcll("plan", "--bank", "alic", RCLL_DATABASE_URL=legacy.url), 2, "'alic'", "did you mean 'alice'")
    with legacy.connect() as conn:
        assert not read_tenants(conn)[0].migrated


def test_busy_bank(rcll, legacy):
    """While another run holds a bank the exit code is 4 and the line says who holds it."""
    with legacy.connect() as conn:
        migrate(legacy, read_tenants(conn)[0])
        (tenant,) = read_tenants(conn)
    with hold_banks(legacy, tenant, ["alice"], uuid4()):
        _refused(rcll("reorganize", RCLL_DATABASE_URL=legacy.url), 4, "'alice' is in use by", f"pid {os.getpid()}")
    code, out, _ = rcll("runs", "--json", RCLL_DATABASE_URL=legacy.url)
    assert (code, json.loads(out)) == (0, []), "a run that never began is no failed one"


def test_home_that_cannot_be_made(rcll, tmp_path):
    """RCLL_HOME below a file is refused with what to set."""
    (tmp_path / "file").write_text("")
    home = str(tmp_path / "file" / "home")
    _refused(rcll("status", RCLL_HOME=home), 2, "RCLL_HOME")
    _refused(rcll("plan", RCLL_HOME=home, RCLL_DATABASE_URL="postgresql://x@127.0.0.1:9/x"), 2, "RCLL_HOME")


def test_wrong_setting(rcll):
    """A setting that cannot be used is named; its value is not shown."""
    _refused(rcll("status", RCLL_CLOSET_THRESHOLD="many"), 2, "closet_threshold", "RCLL_CLOSET_THRESHOLD")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('{"text": "a"}\n{"text": \n', "-:2: not JSON"),
        ('{"text": "a"}\n\n[1]\n', "-:3: a JSON list"),
        ("\x00\n", "-:1: not JSON"),
        ('{"text": "a", "score": NaN}\n', "-:1: not JSON (NaN is no JSON number)"),
        ('{"text": "a", "score": 1e999}\n', "-:1: not JSON (1e999 is no JSON number)"),
    ],
)
def test_broken_json_line(rcll, lines, expected):
    """A broken line is named by its number."""
    _refused(rcll("classify", "-", stdin=lines), 2, expected)


def test_classify_keeps_every_line(rcll):
    """Lines keep their order and fields; one without a text passes as it is and is counted."""
    lines = [{"id": 1, "text": "We rotated the OAuth2 tokens."}, {"id": 2}, {"id": 3, "text": ""}, {"text": "\ud800 x"}]
    code, out, err = rcll("classify", "-", stdin="\n".join(map(json.dumps, lines)))
    assert code == 0, err
    found = [json.loads(line) for line in out.splitlines()]
    assert found[0] == lines[0] | {"room": "auth"} | {key: found[0][key] for key in ("hall", "layer")} | {
        key: found[0][key] for key in ("room_rule", "hall_rule")
    }
    assert found[1] == {"id": 2}
    assert (found[2]["room"], found[2]["hall"], found[2]["layer"]) == ("general", "fact", 2)
    assert found[3]["text"] == "\ud800 x"
    assert "3 of 4 lines classified; 1 have no text" in err


RULE = "{ id = 'garden', room = 'garden', pattern = 'roses?', hits = ['a rose'] }"


def test_eval_names_labels_that_no_rule_gives(rcll):
    """A room that the taxonomy does not know is told with its number of units, in text and in JSON."""
    lines = "\n".join(
        json.dumps({"text": "We rotated the OAuth2 tokens.", "room": room, "hall": "event"})
        for room in ("auth", "moon")
    )
    code, _, err = rcll("eval", "-", stdin=lines)
    assert code == 0, err
    assert "1 units bear room 'moon', which no rule gives" in err
    assert json.loads(rcll("eval", "-", "--json", stdin=lines)[1])["unknown"] == {"room": {"moon": 1}, "hall": {}}
    (code, _, err), empty = rcll("eval", "-", stdin='{"text": "a", "room": "auth"}'), rcll("eval", "-")
    assert (code, empty[0]) == (2, 2)
    assert "object 1 has no 'hall'" in err


def test_taxonomy_check(rcll, tmp_path):
    """A sound file passes; problems are told with file and line, and the exit code says so."""
    (tmp_path / "own.toml").write_text(f"rules = [{RULE}]")
    assert rcll("taxonomy", "check", "own.toml")[:2] == (0, "no errors, 0 warnings\n")
    (tmp_path / "bad.toml").write_text(f"rules = [\n{RULE.replace('roses?', '^roses')},\n]")
    code, out, _ = rcll("taxonomy", "check", "bad.toml")
    assert code == 2
    assert "bad.toml:2: rule 'garden': anchor '^'" in " ".join(out.split())
    found = json.loads(rcll("taxonomy", "check", "bad.toml", "--json")[1])
    assert [(finding["line"], finding["severity"]) for finding in found] == [(2, "error")]
    (tmp_path / "empty.toml").write_text("")
    for name in ("empty.toml", "none.toml"):
        assert rcll("taxonomy", "check", name)[0] == 2


def test_taxonomy_show(rcll, tmp_path):
    """Rules stand in order of priority, own ones before the shipped ones."""
    (tmp_path / "own.toml").write_text(f'extends = "default"\nrules = [{RULE}]')
    code, out, err = rcll("taxonomy", "show", "--taxonomy", "own.toml", "--json")
    assert code == 0, err
    rules = json.loads(out)
    assert rules[0] == {
        "dimension": "room",
        "label": "garden",
        "tier": "word",
        "language": None,
        "rule": "garden",
        "pattern": "roses?",
    }
    assert len(rules) > 500
    _refused(rcll("taxonomy", "show", "--taxonomy", "none.toml"), 2, "none.toml", "cannot be read")


def test_taxonomy_suggest(rcll):
    """Words of units that no room rule knows are proposed, with how many units each would catch."""
    texts = [f"The zeppelin crossed quadrant {n} slowly." for n in range(8)]
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    code, out, err = rcll("taxonomy", "suggest", "-", "--json", stdin=lines)
    assert code == 0, err
    assert [(row["n_units"], row["room"]) for row in json.loads(out)] == [(8, None)]  # no better word for fewer
    _refused(rcll("taxonomy", "suggest"), 2, "neither or both")


def test_own_room_in_one_line(rcll, tmp_path):
    """A file of one rule is enough for a new room, in classify and explain."""
    (tmp_path / "own.toml").write_text(f'extends = "default"\nrules = [{RULE}]')
    code, out, err = rcll("classify", "-", stdin='{"text": "The roses need water"}', RCLL_TAXONOMY="own.toml")
    assert code == 0, err
    assert json.loads(out)["room"] == "garden"
    assert json.loads(out)["room_rule"] == "garden"


def test_label_and_explain(rcll, legacy):
    """A label set through the program is explicit; explain says so; a wrong id changes nothing."""
    url = {"RCLL_DATABASE_URL": legacy.url}
    _refused(rcll("label", unit_id(0), "--room", "auth", **url), 2, "rcll migrate")
    assert rcll("migrate", **url)[0] == 0
    assert rcll("label", unit_id(0), "--room", "auth", "--layer", "0", **url)[0] == 0
    code, out, _ = rcll("explain", unit_id(0), "--json", **url)
    assert code == 0
    stored = json.loads(out)["unit"]
    assert (stored["room"], stored["room_source"], stored["layer"], stored["hall_source"]) == (
        "auth",
        "explicit",
        "0",
        "rule",
    )
    _refused(rcll("label", "nonsense", "--room", "auth", **url), 2, "'nonsense' is no unit id")
    _refused(rcll("label", str(uuid4()), "--room", "auth", **url), 2, "no unit")
    _refused(rcll("label", unit_id(1), "--room", "x" * 65, **url), 2, "65 characters")
    _refused(rcll("label", unit_id(1), **url), 2, "expected --room")


def test_first_digits_of_an_id_are_enough(rcll, legacy):
    """Of a unit and of a run; too few, or those that several have, are refused with what to do."""
    url = {"RCLL_DATABASE_URL": legacy.url}
    unit = "7d3e1c52-0000-4000-8000-00000000abcd"
    assert rcll("migrate", **url)[0] == 0
    with legacy.connect() as conn:
        conn.execute("INSERT INTO memory_units (id, bank_id, text) VALUES (%s, 'alice', 'x')", [unit])
        (tenant,) = read_tenants(conn)
        run_id = str(start_run(conn, tenant, kind="reorganize", taxonomy_hash="T", parameters={}))
        finish_run(conn, tenant, UUID(run_id), status="done", summary={"loaded": {"n_written": 3}})
    assert rcll("label", "7d3e1c52", "--room", "hr", **url)[0] == 0
    code, out, _ = rcll("explain", "7D3E1C52-00…", "--json", **url)
    assert (code, json.loads(out)["unit"]["unit_id"], json.loads(out)["unit"]["room"]) == (0, unit, "hr")
    assert rcll("label", "7d3e", "--clear", **url)[0] == 0
    assert "room: hr (handed back to the rules; the next run files it)" in rcll("explain", "7d3e", **url)[1]
    code, out, _ = rcll("runs", run_id[:8], **url)
    assert (code, json.loads(out)["run_id"], json.loads(out)["summary"]) == (0, run_id, {"loaded": {"n_written": 3}})
    assert run_id[:8] in rcll("runs", **url)[1]
    _refused(rcll("explain", "7d3", **url), 2, "'7d3' is no unit id", "first 4 digits")
    _refused(rcll("label", "00000000", "--clear", **url), 2, "begins more than one unit id", "give more of its digits")
    _refused(rcll("runs", "ffffffff", **url), 2, "no run 'ffffffff'")


def test_migrate_there_and_back(rcll, legacy):
    """--check says what is pending, --down needs --yes, and takes out all that was added."""
    url = {"RCLL_DATABASE_URL": legacy.url}
    columns = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'room'"
    assert "0001_labels" in rcll("migrate", "--check", **url)[1]
    assert rcll("migrate", **url)[0] == 0
    assert "nothing" in rcll("migrate", **url)[1]
    _refused(rcll("migrate", "--down", **url), 2, "--yes")
    assert rcll("migrate", "--down", "--yes", **url)[0] == 0
    with legacy.connect() as conn:
        assert conn.execute(columns).fetchone() == (0,)


def test_demo_never_touches_the_users_own_database(rcll, legacy, tmp_path):
    """An address in rcll.toml does not lead the demo astray; a wrong file of settings stops every command."""
    (tmp_path / "rcll.toml").write_text(f'database_url = "{legacy.url}"\ncloset_threshold = 5000\n')
    code, out, err = rcll("demo", "--json")
    assert code == 0, err
    assert json.loads(out)["labels"]["n_units"] > 1000
    with legacy.connect() as conn:
        assert not read_tenants(conn)[0].migrated
    (tmp_path / "rcll.toml").write_text("closet_threshold =\n")
    _refused(rcll("status"), 2, "rcll.toml cannot be read")


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("RCLL_TUNNEL_PAIRS", "nonsense", "is no JSON"),
        ("RCLL_CONFIG", "/nowhere/rcll.toml", "which is no file"),
        ("RCLL_DATABASE_URL", "postgresql://a:hunter2@127.0.0.1:9/x?connect_timeout=s3cr3t", "an option of the"),
    ],
)
def test_settings_of_nonsense(rcll, variable, value, expected):
    """Each is one line that names what cannot be used and quotes no value that may be secret."""
    outcome = rcll("status", **{variable: value})
    _refused(outcome, 2, expected)
    assert "s3cr3t" not in outcome[2]
    assert "hunter2" not in outcome[2]


def test_lists_of_an_unknown_bank(rcll, legacy):
    """Closets and tunnels refuse a bank that does not exist, as plan does."""
    for command in ("closets", "tunnels"):
        _refused(rcll(command, "--bank", "alic", RCLL_DATABASE_URL=legacy.url), 2, "did you mean 'alice'")


def test_tunnels_by_hand(rcll, legacy):
    """Added, listed, shown from either end and removed; what cannot be is one line."""
    url = {"RCLL_DATABASE_URL": legacy.url}
    alice, bob = unit_id(0), unit_id(1)
    _refused(rcll("tunnels", "add", alice, bob, **url), 2, "a migrated bank")
    assert rcll("migrate", **url)[0] == 0
    code, out, _ = rcll("tunnels", "add", alice, bob, "--relationship", "extends", "--json", **url)
    assert code == 0
    (tunnel,) = json.loads(out)["tunnels"]
    code, out, _ = rcll("tunnels", "show", bob, "--json", **url)
    assert [far["path"] for far in json.loads(out)["neighbours"]] == [[bob, tunnel["tunnel_id"], alice]]
    code, out, _ = rcll("tunnels", **url)
    assert code == 0
    assert "extends" in out
    assert "tunnel_pairs" in out
    _refused(rcll("tunnels", "add", alice, str(uuid4()), **url), 2, "no unit")
    _refused(rcll("tunnels", "add", "alice", "bob", **url), 2, "'alice' is no unit id")
    _refused(rcll("tunnels", "add", "alice", "bob", "--room", "general", **url), 2, "holds what no rule knew")
    assert rcll("tunnels", "remove", tunnel["tunnel_id"], **url)[0] == 0
    _refused(rcll("tunnels", "remove", tunnel["tunnel_id"], **url), 2, "no tunnel")
