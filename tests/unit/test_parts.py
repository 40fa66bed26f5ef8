"""Parquet parts are whole or not there, and a folder that cannot be written is one line."""

import polars as pl
import pytest

from rcll.errors import Transient
from rcll.store.parts import read_part, scan_parts, schema_folder, write_part

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


def test_folder_with_wildcards_in_its_name(tmp_path):
    """A folder called like a pattern is that folder."""
    path = write_part(FRAME, tmp_path / "we[i]rd *?" / "plan-0.parquet")
    assert read_part(path).equals(FRAME)
    assert scan_parts([path, path]).collect().height == 2 * FRAME.height


@pytest.mark.parametrize("schema", ["..", ".", "a/../../b", "/etc", "~root", "Schéma %2F"])
def test_folder_of_a_schema_is_one_step_down(schema, tmp_path):
    """Whatever a schema is called, its folder lies where it is asked for, and is no other's."""
    folder = (tmp_path / schema_folder(schema)).resolve()
    assert folder.parent == tmp_path.resolve()
    assert schema_folder("public") == "public" != schema_folder(schema)
