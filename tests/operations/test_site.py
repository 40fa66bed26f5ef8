"""An operation in small: the clock fires, runs by hand take parameters, one at a time, killed runs are closed."""

import json
import os
import signal

import pytest

from tests.operations.conftest import N_UNITS, processes_of, wait_until

pytestmark = pytest.mark.timeout(1200)


def _state(site, flow, number=-1):
    runs = site.flow_runs(flow)
    return runs[number]["state_type"] if runs else None


def test_operation(site):
    """The walk of docs/operations.md, from an empty server to several runs."""
    _is_described(site)
    _cron_run_fires_and_completes(site)
    _second_run_at_the_same_time_is_refused_and_the_first_can_be_stopped(site)
    _killed_run_is_closed_and_the_next_goes_on(site)


def _is_described(site):
    """The form in Prefect's UI has a line of help for every parameter of every deployment."""
    found = {each["name"]: each for each in site.ask("deployments/filter")}
    assert set(found) == {"reorganize", "backfill", "snapshot"}
    for each in found.values():
        assert each["description"]
        assert each["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
        for name, parameter in each["parameter_openapi_schema"]["properties"].items():
            assert parameter.get("description"), (each["name"], name)


def _cron_run_fires_and_completes(site):
    """Nobody asks for it: the clock does, within two minutes."""
    wait_until(lambda: _state(site, "reorganize", 0) == "COMPLETED")
    assert site.rows("SELECT count(*) FROM rcll_labels") == [(N_UNITS,)]
    assert site.rows("SELECT DISTINCT status FROM rcll_runs WHERE finished_at IS NOT NULL") == [("done",)]
    artifacts = site.ask("artifacts/filter")
    assert any("infrastructure" in str(each["data"]) for each in artifacts)
    assert site.database.url not in json.dumps(artifacts)
    (nightly,) = (each for each in site.ask("deployments/filter") if each["name"] == "reorganize")
    site.run("prefect", "deployment", "schedule", "pause", "--all")
    assert nightly["schedules"][0]["schedule"]["timezone"] == "Etc/UTC"
    wait_until(lambda: not site.rows("SELECT FROM rcll_runs WHERE status = 'running'"))


def _begin_slow_backfill(site):
    """A run by hand, with parameters, that takes minutes."""
    with site.database.connect() as conn:
        conn.execute("TRUNCATE rcll_labels, rcll_changes")
        conn.execute("UPDATE memory_units SET room = 'general', hall = 'fact'")
    n_before = len(site.flow_runs("backfill"))
    site.run("prefect", "deployment", "run", "backfill/backfill", "--param", "rate=3", "--param", "pages=7")
    wait_until(lambda: site.rows("SELECT FROM rcll_changes"))
    (run,) = site.flow_runs("backfill")[n_before:]
    assert run["parameters"]["rate"] == 3
    return run["id"]


def _second_run_at_the_same_time_is_refused_and_the_first_can_be_stopped(site):
    """CANCEL_NEW cancels the second; rcll stop ends the first within seconds, honestly partial."""
    _begin_slow_backfill(site)
    site.run("prefect", "deployment", "run", "backfill/backfill")
    wait_until(lambda: _state(site, "backfill") == "CANCELLED")
    busy = site.run("rcll", "reorganize", check=False)
    assert busy.returncode == 4, busy.stderr
    site.run("rcll", "stop")
    wait_until(lambda: not site.rows("SELECT FROM rcll_runs WHERE status = 'running'"), seconds=20)
    (status, summary) = site.rows("SELECT status, summary FROM rcll_runs ORDER BY started_at DESC LIMIT 1")[0]
    assert status == "partial"
    assert 0 < summary["loaded"]["n_written"] < N_UNITS


def _killed_run_is_closed_and_the_next_goes_on(site):
    """Kill -9 of the flow's process: Prefect sees a crash, the hook frees the banks, the next run does the rest."""
    flow_run = _begin_slow_backfill(site)
    os.kill(processes_of(flow_run)[-1], signal.SIGKILL)
    wait_until(lambda: _state(site, "backfill") == "CRASHED")
    wait_until(lambda: not site.rows("SELECT FROM rcll_runs WHERE status = 'running'"), seconds=60)
    assert site.rows("SELECT status FROM rcll_runs ORDER BY started_at DESC LIMIT 1") == [("failed",)]
    assert site.rows("SELECT FROM rcll_leases WHERE expires_at > clock_timestamp()") == []
    rest = site.run("rcll", "backfill", "--json")
    assert f"Prefect API: {site.api.partition('//')[2]}" in rest.stderr.replace("\n", "") or site.api in rest.stderr
    assert site.rows("SELECT count(*) FROM rcll_labels") == [(N_UNITS,)]
    assert site.rows("SELECT unit_id FROM rcll_changes GROUP BY 1 HAVING count(*) > 1") == []
