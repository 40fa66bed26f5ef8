"""Results on their way to other programs: CSV that a spreadsheet does not execute."""

import csv
from collections.abc import Iterable, Sequence
from typing import IO, Any

#: A cell that begins so is a formula to a spreadsheet; a quote before it makes it text again.
#: See https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_csv(stream: IO[str], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a header and rows; texts that begin like a formula get a quote in front, numbers stay as they are."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([as_text_cell(name) for name in columns])
    for row in rows:
        writer.writerow([as_text_cell(cell) for cell in row])


def as_text_cell(cell: Any) -> Any:
    """The cell as a spreadsheet may read it."""
    if cell is None or isinstance(cell, bool | int | float):
        return cell
    text = str(cell)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
