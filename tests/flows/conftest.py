"""One Prefect test server for the whole tier."""

import os
from collections.abc import Iterator

import pytest

from tests.integration.conftest import admin, clone, make_template, role, server

__all__ = ["admin", "clone", "make_template", "role", "server"]  # pytest finds the fixtures by these names

# Prefect reads its environment when it is imported.
os.environ.update({"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"})


@pytest.fixture(scope="session", autouse=True)
def prefect_server() -> Iterator[None]:
    """A temporary server and database, so that no run reaches the user's own."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield
