"""What Prefect's UI shows of a run."""

from flows.artifacts import markdown


def _summary(name="tax"):
    counts = {"room": {name: 3}, "hall": {"fact": 3}}
    labels = {"n_units": 3, "n_explicit": 1, "skipped": {"empty": 1}, "before": {"room": {}, "hall": {}}}
    return {
        "schema": "public",
        "status": "done",
        "run_id": "r1",
        "labels": labels | {"after": counts},
        "loaded": {"n_written": 2, "n_recorded": 1, "skipped": {"locked": 4}, "notes": []},
        "closets": {"n_new": 1, "n_updated": 0, "n_gone": 2, "n_kept": 5, "n_failed": 0},
        "seconds": {"load": 1.25},
    }


def test_summary_says_what_was_done_kept_and_skipped():
    """Every count of the summary stands in the text."""
    text = markdown("reorganize", _summary())
    for line in (
        "2 units written, 1 more recorded",
        "1 with a label that somebody set, kept",
        "skipped: 1 empty, 4 locked",
        "closets: 1 new, 0 updated, 2 gone, 5 kept, 0 failed",
        "| tax | 0 | 3 |",
        "load 1.2 s",
    ):
        assert line in text


def test_labels_are_text_and_never_markup():
    """A label that somebody set may hold anything; it breaks no table and becomes no HTML."""
    text = markdown("reorganize", _summary("a|b <script>\n# x [l](u)"))
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "a\\|b" in text
    assert "\n# x" not in text
