"""What one tenant's routes work with: its database, its rules, and the embedder that makes its banks' vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from starlette.concurrency import run_in_threadpool

from rcll.errors import DatabaseError, InputError
from rcll.models.embed import Embedder, choose_embedder, shares_space
from rcll.service.access import Access
from rcll.store.pool import Pool
from rcll.store.recall import probe_units
from rcll.taxonomy import Taxonomy
from rcll.walk.place import Place


class Space(Protocol):
    """Embeds texts as the vectors of a bank were made."""

    async def embed(self, bank: str, texts: Sequence[str]) -> np.ndarray:
        """Rows (n_texts, n_dims), in order.

        Raises:
            RcllError: nothing here makes the vectors of that bank.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Palace:
    """One tenant of one database, as the service works on it; ``place`` is for the walk's own functions."""

    place: Place
    pool: Pool
    taxonomy: Taxonomy
    space: Space
    has_types: bool
    """Vector indexes are partial by fact type."""
    has_index: bool
    """There are vector indexes at all."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a tenant, and what is open to the caller there."""

    palace: Palace
    access: Access
    name: str
    """For the log: the number of the key, never its secret."""


class OwnSpace:
    """The configured embedder, or the offline one, once a bank has shown that its vectors are made by it."""

    def __init__(self, place: Place, pool: Pool) -> None:
        self._place, self._pool = place, pool
        self._known: dict[str, Embedder] = {}

    async def embed(self, bank: str, texts: Sequence[str]) -> np.ndarray:
        """Rows (n_texts, n_dims), in order."""
        embedder = self._known.get(bank) or await self._choose(bank)
        return await run_in_threadpool(embedder.embed, texts)

    async def _choose(self, bank: str) -> Embedder:
        """The embedder of a bank; what a few of its units say is asked once they exist."""
        kind = self._place.tenant.embedding
        if kind is None:
            raise DatabaseError("the units have no embeddings; expected a column embedding; nothing can be searched")
        embedder = choose_embedder(self._place.settings, kind.dims, is_own_space=True)
        if embedder is None:
            raise InputError(
                f"the banks hold vectors of {kind.dims or 'any'} dimensions, and no embedder of that kind is set; "
                "expected RCLL_EMBED_MODEL to name the model that made them"
            )
        async with self._pool.connection() as conn:
            probed, vectors = await probe_units(conn, self._place.tenant, bank)
        if probed and not await run_in_threadpool(shares_space, embedder, probed, vectors):
            raise InputError(
                f"embedder '{embedder.name}' does not make the vectors of bank '{bank[:64]}'; "
                "expected RCLL_EMBED_MODEL to name the model that made them"
            )
        if probed:
            self._known[bank] = embedder
        return embedder
