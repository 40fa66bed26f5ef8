"""An installed wheel, away from the checkout, finds its SQL, its taxonomy and its flows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which the built wheel is unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("rcll-*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder / "site", wheel]
    subprocess.run(install, check=True, capture_output=True)
    return folder


def _python(installed: Path, code: str) -> str:
    """Run code that sees the wheel before the checkout, in another folder."""
    environment = os.environ | {"PYTHONPATH": str(installed / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_finds_sql_and_flows(installed):
    """SQL and flows come from the wheel, not from the checkout."""
    code = "import flows, rcll.resources; print(rcll.resources.sql_dir()); print(flows.__file__)"
    for line in _python(installed, code).splitlines():
        assert line.startswith(str(installed / "site"))


def test_wheel_classifies(installed):
    """The taxonomy is inside."""
    code = (
        "import sys; sys.argv = ['rcll', 'classify', '-']; import io; "
        'sys.stdin = io.TextIOWrapper(io.BytesIO(b\'{"text": "We rotated the OAuth2 tokens."}\\n\')); '
        "from rcll.cli import main; main()"
    )
    assert json.loads(_python(installed, code))["room"] == "auth"


def test_wheel_holds_no_foreign_files(installed):
    """Nothing but the two packages and their metadata."""
    tops = {path.name.split("-")[0] for path in (installed / "site").iterdir()}
    assert tops <= {"rcll", "flows", "bin"}
