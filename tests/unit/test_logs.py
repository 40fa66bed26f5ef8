"""Log records: whose they are, and how they are written."""

import json
import logging
import subprocess
import sys

from rcll.logs import get_logger, logged_as

_PROGRAM = """
from rcll.logs import get_logger, log_to_stderr, logged_as
from rcll.progress import report
log_to_stderr("json")
log_to_stderr("json")
get_logger("rcll.flows").info("outside")
with logged_as(run="R", stage="load"):
    get_logger("rcll.models").warning("within %s", "it")
    report("label", 3, 7, bank="alice")
"""


def test_records_bear_the_fields_of_the_work_around_them(caplog):
    """Inner fields win, None leaves the outer ones, what a record was logged with wins over all."""
    logger = get_logger("rcll.test")
    with caplog.at_level(logging.INFO, "rcll.test"):
        logger.info("1")
        with logged_as(run="R", stage="load"), logged_as(stage="record", bank=None):
            logger.info("2")
            logger.info("3", extra={"bank": "alice", "stage": "own"})
        logger.info("4")
    found = [(record.run, record.bank, record.stage) for record in caplog.records]
    none = (None, None, None)
    assert found == [none, ("R", None, "record"), ("R", "alice", "own"), none]


def test_json_is_one_object_a_line_with_run_bank_and_stage():
    """Each record once, progress among them, although the format was asked for twice."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(each["message"], each["run"], each["bank"], each["stage"]) for each in lines] == [
        ("outside", None, None, None),
        ("within it", "R", None, "load"),
        ("label 3/7", "R", "alice", "label"),
    ]
    assert {"time", "level", "logger"} < set(lines[0])
    assert (lines[2]["done"], lines[2]["total"]) == (3, 7)
