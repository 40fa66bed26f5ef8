"""Vectors of closets and queries, always in the space of the bank that they are for.

A vector is of use only beside vectors of the same model. So: the embedder that the settings name, where it
fits the bank; wordllama, offline, in banks of rcll's own; elsewhere the centroid of the sources' vectors,
which lies in the bank's space whatever made them.
"""

import logging
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rcll.errors import ModelError
from rcll.logs import get_logger
from rcll.models.mask import masked_head
from rcll.settings import Settings
from rcll.stages.similarity import Floats, unit_rows

if TYPE_CHECKING:
    from wordllama.inference import WordLlamaInference

    from rcll.models.client import Endpoint

logger = get_logger("rcll.models")

#: What stands in ``embedding_model`` where a closet's vector is the centroid of its sources.
CENTROID = "centroid"

#: Characters of a text that are embedded: about 1,000 tokens. Mean pooling pads a batch to its longest text,
#: so one pasted log of megabytes would cost gigabytes; it says in its head what it is about.
EMBED_CHARS = 4_000
_BATCH = 64

#: Median cosine of stored and new vectors of the same texts: near 1 for the same model, 0.8 where the bank
#: embedded a date or context beside the text, near 0 for another model.
SAME_SPACE = 0.6


class SpaceMismatch(ModelError):  # noqa: N818 - the state it reports
    """An embedder's vectors have another length than the bank's."""


class Embedder(Protocol):
    """Turns texts into vectors of one space.

    Attributes:
        name: the model's name, stored beside each vector.
        dims: length of its vectors.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above
    @property
    def dims(self) -> int: ...  # noqa: D102

    def embed(self, texts: Sequence[str]) -> Floats:
        """Rows (n_texts, dims) of length one, in order; a blank text gives a row of zeros.

        Raises:
            ModelError: the model cannot be reached or its vectors cannot be used.
        """
        ...


class OfflineEmbedder:
    """wordllama: static token vectors, mean pooled; weights inside the wheel, no download."""

    name = "wordllama-l2-supercat-256"
    dims = 256

    def embed(self, texts: Sequence[str]) -> Floats:
        """Rows of length one; about 50,000 short texts a second."""
        model = _load_wordllama()
        heads = [text[:EMBED_CHARS] for text in texts]
        rows = np.zeros((len(heads), self.dims), dtype=np.float32)
        # neighbours of like length share a batch, so that little is padded; the result does not depend on it
        order = sorted((i for i, head in enumerate(heads) if head.strip()), key=lambda i: len(heads[i]))
        if order:
            rows[order] = model.embed([heads[i] for i in order], norm=False, batch_size=_BATCH)
        return unit_rows(rows)


class OpenAIEmbedder:
    """Any server that speaks the OpenAI embeddings protocol; texts leave the machine masked."""

    def __init__(self, endpoint: "Endpoint", dims: int) -> None:
        self.name, self.dims = endpoint.model, dims
        self._endpoint = endpoint
        self._client = endpoint.open()
        weakref.finalize(self, self._client.close)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Rows of length one, asked for in batches; the client takes base64 off the wire by itself.

        Raises:
            ModelError: unreachable, refused, or vectors of another length, number or with NaN.
        """
        rows = np.zeros((len(texts), self.dims), dtype=np.float32)
        heads = [masked_head(text, EMBED_CHARS) for text in texts]
        present = [i for i, head in enumerate(heads) if head.strip()]  # servers refuse a blank one
        for start in range(0, len(present), _BATCH):
            batch = present[start : start + _BATCH]
            rows[batch] = self._embed_batch([heads[i] for i in batch])
        return unit_rows(rows)

    def _embed_batch(self, texts: list[str]) -> Floats:
        import openai  # noqa: PLC0415 - loaded by the endpoint already

        from rcll.models.client import explain_fault  # noqa: PLC0415

        try:
            reply = self._client.embeddings.create(model=self.name, input=texts)
            vectors = [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
        except openai.OpenAIError as error:
            raise ModelError(f"embedder '{self.name}' failed: {explain_fault(error, self._endpoint)[1]}") from None
        except (AttributeError, TypeError, ValueError):
            raise ModelError(f"embedder '{self.name}' answered with something that is no list of vectors") from None
        return self._checked(vectors, len(texts))

    def _checked(self, vectors: list[list[float]], n_texts: int) -> Floats:
        found = {len(vector) for vector in vectors}
        if len(vectors) != n_texts:
            raise ModelError(f"embedder '{self.name}' gave {len(vectors)} vectors; expected {n_texts}")
        if found != {self.dims}:
            raise SpaceMismatch(
                f"embedder '{self.name}' gives vectors of {max(found)} dimensions; expected {self.dims}; "
                "set RCLL_EMBED_MODEL to the bank's own model, or unset it to use centroids"
            )
        rows = np.asarray(vectors, dtype=np.float32)
        if not np.isfinite(rows).all():
            raise ModelError(f"embedder '{self.name}' gave NaN or infinite values; expected finite vectors")
        return rows


def choose_embedder(settings: Settings, bank_dims: int | None, is_own_space: bool) -> Embedder | None:
    """The embedder for a bank's closets, or None: use the centroid, and mark it so.

    Whether a configured model is really the bank's is seen only by ``shares_space``; call it before the
    first closet is embedded, and take the centroid where it says no.

    Args:
        settings: ``embed_model`` names a model, or does not.
        bank_dims: dimension of the bank's vectors; None where it has none.
        is_own_space: the bank's vectors were made by rcll's offline embedder.
    """
    if bank_dims is None:
        return None
    if settings.embed_model is not None:
        from rcll.models.client import Endpoint  # noqa: PLC0415 - the client takes half a second to load

        endpoint = Endpoint(settings.embed_model, settings.embed_base_url, settings.embed_api_key, "RCLL_EMBED")
        return OpenAIEmbedder(endpoint, bank_dims)
    if is_own_space and bank_dims == OfflineEmbedder.dims:
        return OfflineEmbedder()
    return None


def shares_space(embedder: Embedder, texts: Sequence[str], embeddings: Floats) -> bool:
    """Whether an embedder makes the vectors that a bank holds; a few units tell.

    Args:
        embedder: one call is made with it.
        texts: texts of some units, five will do.
        embeddings: (n_texts, bank's dims) their stored vectors; rows with NaN or of length zero do not count.

    Returns:
        True also where no unit tells, and False, with a warning, where dimension or direction differ.

    Raises:
        ModelError: the model cannot be reached.
    """
    try:
        found = embedder.embed(texts)
    except SpaceMismatch as error:
        logger.warning("%s; closets get the centroid of their sources", error)
        return False
    stored = unit_rows(embeddings)
    cosines = (stored * found).sum(axis=1)[stored.any(axis=1)]
    if len(cosines) == 0 or float(np.median(cosines)) >= SAME_SPACE:
        return True
    logger.warning(
        "embedder '%s' does not make the bank's vectors (cosine %.2f); closets get the centroid of their sources",
        embedder.name,
        float(np.median(cosines)),
    )
    return False


def centroid(embeddings: Floats, weights: NDArray[np.floating] | None = None) -> Floats | None:
    """Mean direction of vectors, of length one.

    Args:
        embeddings: (n, d); each row counts by its direction, rows with NaN, infinity or length zero not at all.
        weights: (n,) how much each row counts, by default the same.

    Returns:
        (d,) or None where no row counts or they cancel out.
    """
    rows = unit_rows(embeddings).astype(np.float64)
    mean = rows.T @ (np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64))
    length = float(np.linalg.norm(mean))
    if length < 1e-6 * max(1, len(rows)):  # rounding noise of rows that cancel out
        return None
    return (mean / length).astype(np.float32)


@cache
def _load_wordllama() -> "WordLlamaInference":
    """The model, loaded when first needed (0.3 s) and never downloaded."""
    with _root_logger_untouched():
        import wordllama  # noqa: PLC0415

        folder = Path(wordllama.__file__).parent  # its own search misses the tokenizer in its wheel
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


@contextmanager
def _root_logger_untouched() -> Generator[None]:
    """Importing wordllama calls logging.basicConfig, which would print every library's INFO lines."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
