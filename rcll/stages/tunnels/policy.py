"""Which banks may be linked with which by automatic discovery."""

from collections.abc import Sequence
from fnmatch import translate
from re import compile as compile_regex

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]


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
    for one, other in dict.fromkeys(pairs):
        rows, columns = _matching(names, one), _matching(names, other)
        allowed[np.ix_(rows, columns)] = True
        allowed[np.ix_(columns, rows)] = True
    for pattern in private:
        hidden = _matching(names, pattern)
        allowed[hidden, :] = False
        allowed[:, hidden] = False
    np.fill_diagonal(allowed, val=False)
    return allowed


def _matching(names: Sequence[str], pattern: str) -> NDArray[np.intp]:
    """Positions of the names that a pattern means."""
    matches = compile_regex(translate(pattern)).match
    return np.array([i for i, name in enumerate(names) if name == pattern or matches(name)], dtype=np.intp)
