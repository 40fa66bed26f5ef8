"""Made-up rooms for the closet tests: matters told several times in invented words, and strangers."""

import numpy as np
import polars as pl

from rcll.frames import ROOM_UNITS

NOISE = ("the", "a", "was", "is", "has", "been", "after", "before", "with", "for", "by", "on", "at", "since", "its")
LETTERS = np.array(list("abcdefghijklmnoprstuvw"))
N_DIMS = 48


class MadeUpRoom:
    """A room whose matters have seven words of their own each, and are told with five of them.

    Unit ``m003-1`` is the second telling of matter 3, ``s007`` a text about nothing else.
    """

    def __init__(self, n_matters=20, n_singles=60, seed=0):
        self.rng = np.random.default_rng(seed)
        self.matters = [self.words(7) for _ in range(n_matters)]
        told = {f"m{i:03d}-{k}": self.tell(i) for i in range(n_matters) for k in range(4)}
        self.texts = told | {f"s{i:03d}": self.single() for i in range(n_singles)}

    def words(self, n):
        """Invented words."""
        return ["".join(self.rng.choice(LETTERS, 7)) for _ in range(n)]

    def tell(self, matter):
        """Another telling of a matter."""
        own = self.rng.choice(self.matters[matter], 5, replace=False)
        return " ".join(self.rng.permutation([*own, *self.rng.choice(NOISE, 4), *self.words(1)]))

    def single(self):
        """A text that shares no content with any other."""
        return " ".join(self.rng.permutation([*self.words(6), *self.rng.choice(NOISE, 4)]))

    @property
    def units(self):
        """frames.ROOM_UNITS; the text is its own hash."""
        return room_units(self.texts)

    @property
    def vectors(self):
        """Rows for ``units``."""
        return words_as_vectors(self.texts.values())


def room_units(texts, halls=None):
    """frames.ROOM_UNITS of texts by unit id."""
    ids, values = list(texts), list(texts.values())
    columns = {"unit_id": ids, "hall": halls or ["fact"] * len(ids), "text": values, "text_hash": values}
    return pl.DataFrame({**columns, "happened_at": [None] * len(ids)}, schema=ROOM_UNITS)


def words_as_vectors(texts):
    """A stand-in embedder: the sum of one fixed random vector for each word, (n, N_DIMS)."""
    known = {}

    def vector(word):
        seed = int.from_bytes(word.encode()[:8].ljust(8, b"\0"), "big")
        return known.setdefault(word, np.random.default_rng(seed).standard_normal(N_DIMS))

    rows = [sum((vector(word) for word in (text or "").lower().split()), np.zeros(N_DIMS)) for text in texts]
    return np.array(rows, np.float32).reshape(-1, N_DIMS)
