"""What driver and server say, in one line of our own."""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from rcll.errors import DatabaseError, RcllError, Transient


@contextmanager
def one_line_errors(doing: str) -> Generator[None]:
    """Turn errors of the driver into rcll's.

    Args:
        doing: what is cut off or refused, e.g. "writing labels".

    Raises:
        Transient: the connection or the server is gone, or its disk is full; the same call may succeed later.
        DatabaseError: the server refuses.
    """
    try:
        yield
    except psycopg.Error as error:
        raise as_ours(error, doing) from None


def as_ours(error: Exception, doing: str) -> RcllError:
    """An error of the driver as one of ours: Transient where the same call may succeed later, else DatabaseError."""
    if isinstance(error, psycopg.OperationalError):
        return Transient(
            f"{doing} was cut off: {said(error)}; what was committed before stays, nothing is half done; run again"
        )
    wanted = "remove what is in the way and run again; rcll doctor looks for it"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        wanted = "expected a role that may read and write memory_units and rcll's tables, as rcll grants prints it"
    return DatabaseError(f"{doing} was refused: {said(error)}; what was committed before stays; {wanted}")


def said(error: Exception) -> str:
    """What server or driver say, in one line of 300 characters at most."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((said or str(error) or type(error).__name__).split())[:300]
