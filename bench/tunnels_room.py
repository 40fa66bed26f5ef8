"""A room of any size for bench/tunnels: sentences that people wrote, with vectors of 384 dimensions.

The sentences are those of the docstrings of whatever is installed beside rcll: real language about many
thousand matters, some told in several places, at no download. Vectors are wordllama's, turned into 384
dimensions, which leaves every cosine as it was.
"""

import random
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import wordllama
from wordllama import WordLlama

DIMS = 384
N_BANKS = 10
_DOCSTRING = re.compile(r'"""(.+?)"""', re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_MIN_CHARS, _MAX_CHARS, _MIN_LETTERS = 40, 300, 0.8
_MAX_FILE_BYTES = 400_000


class Room(NamedTuple):
    """Units (frames.LINK_UNITS) and their vectors, (n_units, DIMS) float32; row i belongs to unit i."""

    units: pl.DataFrame
    embeddings: np.ndarray


def make_room(n_units: int, seed: int = 0) -> Room:
    """Gather and embed a room; the same packages and seed give the same room."""
    texts = sorted(set(_sentences()))
    random.Random(seed).shuffle(texts)
    if len(texts) < n_units:
        raise SystemExit(f"{len(texts)} different sentences are installed here; expected {n_units}")
    rng = np.random.default_rng(seed)
    units = pl.DataFrame(
        {
            "unit_id": [f"{i:08x}" for i in range(n_units)],
            "bank_id": [f"bank-{i}" for i in rng.integers(0, N_BANKS, n_units)],
            "text": texts[:n_units],
        }
    )
    return Room(units, embed(texts[:n_units]))


def embed(texts: list[str]) -> np.ndarray:
    """Vectors of texts, (n_texts, DIMS) float32."""
    model = WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((DIMS, DIMS)))
    found = np.empty((len(texts), DIMS), dtype=np.float32)
    for i in range(0, len(texts), 8_192):
        vectors = np.asarray(model.embed(texts[i : i + 8_192], norm=True))
        found[i : i + 8_192] = vectors @ turn[: vectors.shape[1]].astype(np.float32)
    return found


def _sentences() -> Iterator[str]:
    for folder in (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")):
        for path in sorted(Path(folder).rglob("*.py")):
            if path.stat().st_size <= _MAX_FILE_BYTES:
                yield from _sentences_of(path.read_text(encoding="utf-8", errors="ignore"))


def _sentences_of(source: str) -> Iterator[str]:
    for docstring in _DOCSTRING.findall(source):
        for paragraph in re.split(r"\n\s*\n", docstring):
            for sentence in _SENTENCE.split(" ".join(paragraph.split())):
                letters = sum(character.isalpha() or character == " " for character in sentence)
                if _MIN_CHARS <= len(sentence) <= _MAX_CHARS and letters >= _MIN_LETTERS * len(sentence):
                    yield sentence
