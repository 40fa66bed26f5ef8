"""The README as a newcomer uses it: a fresh copy of the project, an empty home folder, the commands as they stand."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from rcll.demo import seed_legacy
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: What a shell of a newcomer has, and how this machine reaches its package index.
KEPT = ("PATH", "LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
PREFIXES = ("PIP_", "OPENBLAS_", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
ORDINARY_USER = "nobody"

pytestmark = pytest.mark.timeout(1500)


def _blocks() -> list[list[str]]:
    """Commands of each shell block of the README, comments cut off."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [[line.split("#")[0].strip() for line in block.splitlines() if line.strip()] for block in blocks]


@pytest.fixture(scope="module")
def newcomer():
    """A folder that every account may enter, with a copy of the project and an empty home."""
    folder = _newcomers_folder()
    yield folder
    shutil.rmtree(folder)


def _newcomers_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="rcll newcomer "))
    folder.chmod(0o755)
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / "rcll" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / "rcll" / name)
    (folder / "home").mkdir()
    return folder


def _python_of(user: str) -> str:
    """A Python 3.11 or newer with venv that the account may run; root's own may lie in a closed home."""
    account = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    test = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    names = ("python3.13", "python3.12", "python3.11", "python3")
    for python in [f"{folder}/{name}" for name in names for folder in ("/usr/local/bin", "/usr/bin")]:
        try:
            subprocess.run([python, "-c", test], cwd="/", capture_output=True, check=True, **account)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip(f"no Python 3.11 or newer with venv that account {user} may run; install Debian's python3-venv")


def _run(command: str, folder: Path, *, user: str | None = None, **more: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(PREFIXES)}
    environment = kept | {"HOME": str(folder / "home"), "PATH": f".venv/bin:{os.environ['PATH']}"} | more
    account = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder / "rcll",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **account,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_first_screen_names_the_two_commands():
    """The first block of the README is the two commands, and it stands on the first screen."""
    assert _blocks()[0] == ["make demo", "make test"]
    assert README[: README.index("make test")].count("\n") < 30


def test_demo_command(newcomer):
    """`make demo` sets up and shows rooms, closets, tunnels, what was kept, and what to try next."""
    output = _run(_blocks()[0][0], newcomer)
    for expected in ("units per room", "explicit: ", "some closets", "some tunnels", "in all", "try next"):
        assert expected in output


def test_own_banks_commands(newcomer):
    """The commands for one's own banks run as they stand, with the address filled in; the second run writes nothing."""
    server_home = Path(tempfile.mkdtemp(prefix="rcll-readme-"))
    server_home.chmod(0o711)
    with EmbeddedServer(server_home) as server:
        server.recreate_database("hindsight")
        seed_legacy(Database(server.url("hindsight"), is_embedded=True), schema="public")
        export, *commands = _blocks()[1]
        assert export.startswith("export RCLL_DATABASE_URL=postgresql://")
        for command in commands:
            assert _run(command, newcomer, RCLL_DATABASE_URL=server.url("hindsight"))
        again = _run("rcll reorganize", newcomer, RCLL_DATABASE_URL=server.url("hindsight"))
        assert " units 0 got new labels, 0 keep theirs and are noted in the ledger" in again
    shutil.rmtree(server_home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_demo_as_an_ordinary_user():
    """An ordinary user gets the same demo in his own folder."""
    account = pwd.getpwnam(ORDINARY_USER)
    folder = _newcomers_folder()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)
    python = _python_of(ORDINARY_USER)
    assert "try next" in _run(f"make demo PYTHON={python}", folder, user=ORDINARY_USER)
    shutil.rmtree(folder)


def test_test_command(newcomer):
    """`make test` sets up and passes the tests."""
    assert " passed" in _run(_blocks()[0][1], newcomer)


def test_every_command_has_help_with_examples(newcomer):
    """Each command that the README lists answers --help with an example."""
    listed = re.search(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    names = {name for line in listed[1].splitlines() for name in re.findall(r"(?:rcll|\|) (\w+)", line[:30])}
    assert {"demo", "plan", "reorganize", "status", "runs", "explain", "classify", "eval"} <= names
    for name in sorted(names):
        assert "Examples:" in _run(f"rcll {name} --help", newcomer, COLUMNS="200", TERM="dumb")
