"""Fixtures that several tiers share."""

import os
from collections.abc import Iterator

import hypothesis
import pytest

from tests.doubles.openai_double import OpenAIDouble

# The same examples on every run, and no time limit on one example: a busy machine is no failure.
hypothesis.settings.register_profile("rcll", derandomize=True, deadline=None)
hypothesis.settings.load_profile("rcll")

# Workers of pytest-xdist are told the width of a terminal that none of our commands writes to.
os.environ.pop("COLUMNS", None)

_OPENAI_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update``: answers on pages under test are written anew instead of compared."""
    parser.addoption("--update", action="store_true", help="write answers on pages anew")


@pytest.fixture
def openai_double(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIDouble]:
    """A fresh OpenAI-compatible server on a local socket; nothing of the caller's OPENAI_* reaches the test.

    It tests transport, parsing, retries and budgets, not the quality of answers.
    """
    for name in _OPENAI_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with OpenAIDouble() as double:
        yield double


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where RCLL_NO_SKIPS is set (.ci/run), a skipped test is a failure: nothing is passed over in silence."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("RCLL_NO_SKIPS") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
