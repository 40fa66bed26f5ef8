"""One tree of errors; each message says what was found, what was expected and what to do.

    RcllError                    exit 1  something failed
    ├── InputError               exit 2  a file, a parameter or a setting cannot be used
    ├── DatabaseError            exit 1  the database refuses or is not one that rcll can work on
    │   └── Unreachable          exit 1  nobody answers at the address
    ├── MigrationError           exit 1  recorded and shipped migrations disagree
    ├── ModelError               exit 1  a language model or embedder failed for good
    ├── Stopped                  exit 3  somebody asked the run to stop
    └── Transient                exit 1  the same call may succeed later
        └── Busy                 exit 4  another run holds the bank

Errors cross process borders (Prefect, Dask), so every one is built from its message alone and pickles.
"""


class RcllError(Exception):
    """Base of everything that rcll raises on purpose; the message is one line for the user."""

    exit_code = 1


class InputError(RcllError):
    """A file, a parameter or a setting cannot be used."""

    exit_code = 2


class DatabaseError(RcllError):
    """The database refuses, or is not one that rcll can work on."""


class Unreachable(DatabaseError):  # noqa: N818 - reads as the state it reports
    """Nobody answers at the address, or the credentials are wrong."""


class MigrationError(RcllError):
    """Recorded and shipped migrations disagree."""


class ModelError(RcllError):
    """A language model or an embedder failed for good."""


class Stopped(RcllError):  # noqa: N818 - what happened, and no fault
    """Somebody asked the run to stop; what was committed stays, and the next run goes on from there."""

    exit_code = 3


class Transient(RcllError):  # noqa: N818 - a kind, used as a retry condition
    """The same call may succeed later."""


class Busy(Transient):
    """Another run holds what this one needs."""

    exit_code = 4
