"""Parquet parts are whole or not there, and a folder that cannot be written is one line."""

import polars as pl
import pytest

from rcll.errors import Transient
from rcll.store.parts import write_part

FRAME = pl.DataFrame({"unit_id": ["a", "b"]})


def test_part_is_written_whole_into_a_new_folder(tmp_path):
    """The folder is made, nothing unfinished stays."""
    path = write_part(FRAME, tmp_path / "new" / "plan-0.parquet")
    assert pl.read_parquet(path).equals(FRAME)
    assert [file.name for file in path.parent.iterdir()] == ["plan-0.parquet"]


def test_folder_that_cannot_be_written(tmp_path):
    """A file in the place of the folder: the reason and what to do, in one line."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(Transient, match=r"cannot be written: .*expected room and the right to write") as caught:
        write_part(FRAME, tmp_path / "taken" / "plan-0.parquet")
    assert "\n" not in str(caught.value)
