"""Which banks may be linked with which by automatic discovery."""

from collections.abc import Sequence
from fnmatch import translate
from re import compile as compile_regex

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

_WILD = "*?["


def allowed_banks(names: Sequence[str], pairs: Sequence[tuple[str, str]], private: Sequence[str]) -> Bools:
    """Tell which banks may be linked: those that some pair of patterns names together, less the private ones.

    Patterns are shell-like (``*``, ``?``, ``[ab]``) and case-sensitive; a pattern that is some bank's very
    name also means that bank, whatever characters it holds.

    Args:
        names: (n_banks,) bank names, sorted, each once.
        pairs: pairs of patterns, in either direction.
        private: patterns of banks that never take part.

    Returns:
        (n_banks, n_banks) bool, symmetric, False on the diagonal.
    """
    allowed = np.zeros((len(names), len(names)), dtype=np.bool_)
    places = {name: i for i, name in enumerate(names)}
    for one, other in dict.fromkeys(pairs):
        rows, columns = _meant(places, one), _meant(places, other)
        allowed[np.ix_(rows, columns)] = True
        allowed[np.ix_(columns, rows)] = True
    for pattern in private:
        hidden = _meant(places, pattern)
        allowed[hidden, :] = False
        allowed[:, hidden] = False
    np.fill_diagonal(allowed, val=False)
    return allowed


def _meant(places: dict[str, int], pattern: str) -> NDArray[np.intp]:
    """Places of the names that a pattern means."""
    found = {places[pattern]} if pattern in places else set[int]()
    if any(character in pattern for character in _WILD):
        matches = compile_regex(translate(pattern)).match
        found.update(place for name, place in places.items() if matches(name))
    return np.array(sorted(found), dtype=np.intp)
