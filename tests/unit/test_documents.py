"""What the documents point at is there: links, files, modules of the benches, and every folder of the code."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/INPUTS.md"])
#: Beginnings of paths that documents name in code; endings of files that they may name by a folder of the tree alone.
_FOLDERS = ("rcll/", "flows/", "sql/", "bench/", "tests/", "docs/", "store/", "stages/", "walk/", "taxonomy/")


def _name(document):
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_links_lead_somewhere(document):
    """Every link to a file is to one that exists."""
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_named_files_are_there(document):
    """Every file or folder of ours that is named in code exists, in the root or in the package."""
    words = re.findall(r"`([\w./-]+)`", document.read_text(encoding="utf-8"))
    paths = [word for word in words if word.startswith(_FOLDERS) and "NN" not in word]
    assert [path for path in paths if not ((ROOT / path).exists() or (ROOT / "rcll" / path).exists())] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_named_tests_are_there(document):
    """Every ``file.py::test`` is a test of that file."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", document.read_text(encoding="utf-8"))
    assert [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).is_file() or f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")
    ] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_named_benches_can_be_run(document):
    """Every ``python -m bench.X`` is a module."""
    modules = set(re.findall(r"python -m (bench\.\w+)", document.read_text(encoding="utf-8")))
    assert [module for module in sorted(modules) if find_spec(module) is None] == []


def test_architecture_has_every_folder():
    """A folder of the package that the architecture does not name has no place in the walk."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    folders = sorted(path.parent.name for path in ROOT.glob("rcll/*/__init__.py"))
    assert [folder for folder in folders if f"`rcll/{folder}`" not in text] == []


def test_steps_for_contributors_hold():
    """The list of migrations that CONTRIBUTING sends people to is the list of the files."""
    listed = re.search(
        r"^ALL = \[(.*?)\]", (ROOT / "tests/integration/test_migrate.py").read_text(), re.MULTILINE | re.DOTALL
    )
    assert listed
    files = sorted(file.stem for file in (ROOT / "sql/migrations").glob("*.sql"))
    assert re.findall(r'"(\w+)"', listed[1]) == files
