"""Whatever the OpenAPI allows never makes the server fail: a few requests of each route, RCLL_EXAMPLES for more."""

import os

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error

N_EXAMPLES = int(os.environ.get("RCLL_EXAMPLES", "6"))


def test_no_server_errors(client):
    """Made-up requests of every route get an answer below 500."""
    schema = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 12
    for operation in operations:

        @settings(max_examples=N_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(case=operation.as_strategy())
        def answers(case):
            case.call_and_validate(checks=[not_a_server_error])

        answers()
