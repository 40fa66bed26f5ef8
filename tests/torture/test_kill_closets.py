"""kill -9 at random moments of making closets and archiving their sources: a rerun ends as an undisturbed run."""

import signal
import time
from pathlib import Path

from tests.integration.closet_walks import checks, condense, note_again_and_again, state
from tests.integration.places import N_UNITS, unit_id
from tests.integration.walks import Walk, migrated
from tests.torture.crowd import Job, end_state, expire_leases

#: Matters that alice noted, five times each, and units a second that are moved to the archive layer.
N_MATTERS, RATE = 20, 30
WORDS = (
    *("anvil", "bellows", "chisel", "dowel", "easel", "funnel", "girder", "hinge"),
    *("ingot", "jigsaw", "kiln", "lathe", "mallet", "nozzle", "pulley", "rivet"),
)
#: What a job takes until it writes: interpreter, reading, grouping.
START_SECONDS = 3.0


def _many_matters(database, folder: Path) -> None:
    note_again_and_again(database, folder)
    with database.connect() as conn:
        for number in range(0, min(N_UNITS - 10, 10 * N_MATTERS), 2):
            matter, note = divmod(number // 2, 5)
            word, other = WORDS[matter % 16], WORDS[(5 * matter + 3) % 16]
            text = f"The {word} of hall {matter} {other} was repaired by crew {word}{matter} again, note {note}."
            conn.execute("UPDATE memory_units SET text = %s WHERE id = %s", [text, unit_id(number)])
    Walk(database, migrated(database), folder).run(rules="U")


def _end(walk: Walk):
    closets = "SELECT id, title, summary, source_hash, status, n_sources FROM closets ORDER BY 1"
    sources = "SELECT closet_id, unit_id, text_hash, rank, replaced FROM closet_sources ORDER BY 1, 2"
    return end_state(walk) | {"closets": walk.rows(closets), "sources": walk.rows(sources)}


def test_archiving_killed_at_random_moments(make_template, clone, counts, rnd, tmp_path):
    """Wherever it dies, the next run finishes: same closets and archived units, no rule broken, nothing left to do."""
    template = make_template("many-matters", lambda fresh: _many_matters(fresh, tmp_path / "made"))
    database = clone(template)
    undisturbed = Walk(database, migrated(database), tmp_path / "undisturbed")
    _, found = condense(undisturbed, archive_sources=True)
    assert found.n_archived > 2 * N_MATTERS
    wanted = _end(undisturbed)
    archived = []
    for number in range(counts.kills):
        database = clone(template)
        job = Job(database.url, tmp_path / f"killed-{number}", str(RATE), module="tests.torture.closet_job")
        job.wait_for("begun")
        time.sleep(rnd.uniform(START_SECONDS / 2, START_SECONDS + found.n_archived / RATE))
        job.end(signal.SIGKILL)
        walk = Walk(database, migrated(database), tmp_path / f"rerun-{number}")
        expire_leases(walk)
        archived.append(walk.rows("SELECT count(*) FROM memory_units WHERE layer = 3")[0][0])
        condense(walk, archive_sources=True)
        assert _end(walk) == wanted, f"killed after {archived[-1]} units were archived"
        assert checks(walk) == {}
        before = state(walk)
        condense(walk, archive_sources=True)
        assert state(walk) == before
    assert max(archived) <= found.n_archived
