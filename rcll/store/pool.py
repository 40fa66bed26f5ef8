"""A pool of asynchronous connections for the service; everything else of rcll connects one by one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from rcll.errors import Transient
from rcll.store.connect import CONNECT_SECONDS, Database

#: A connection as the pool hands it out: autocommit, fit for PgBouncer's transaction pooling.
AsyncConnection = psycopg.AsyncConnection[TupleRow]

#: A caller that waits longer for a connection is told to come back.
WAIT_SECONDS = 10.0


class Pool:
    """Connections to one database, opened inside a running event loop."""

    def __init__(self, database: Database, *, size: int) -> None:
        self._pool: AsyncConnectionPool[AsyncConnection] = AsyncConnectionPool(
            database.url,
            min_size=1,
            max_size=size,
            open=False,
            timeout=WAIT_SECONDS,
            name="rcll",
            check=AsyncConnectionPool.check_connection,
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
                "application_name": "rcll serve",
                "client_encoding": "utf8",
                "connect_timeout": CONNECT_SECONDS,
            },
        )

    async def open(self) -> None:
        """Connect; the first connection is waited for."""
        await self._pool.open(wait=True, timeout=WAIT_SECONDS)

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection]:
        """Lend a connection.

        Raises:
            Transient: none was free in time, a statement took too long, or the server is gone.
        """
        try:
            async with self._pool.connection() as conn:
                yield conn
        except PoolTimeout:
            raise Transient("no database connection was free in time; try again") from None
        except psycopg.errors.QueryCanceled:
            raise Transient("a statement took too long and was called off; ask for less, or try again") from None
        except psycopg.OperationalError:
            raise Transient("the database is not to be had; try again") from None
