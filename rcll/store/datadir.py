"""Where the embedded server's data lie, and how they come to be."""

import shutil
import tempfile
from pathlib import Path

from rcll.errors import DatabaseError
from rcll.logs import get_logger
from rcll.store.binaries import Binaries, telling_line

log = get_logger(__name__)

SUPERUSER = "rcll"

_INITDB = (
    "--auth=trust",  # the socket's folder is open to the account alone
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",  # the same order and letter cases on every machine, in all scripts
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
)


def place_data(folder: Path, binaries: Binaries) -> Path:
    """Choose where the data lie: ``folder``/data, or what that links to.

    As root, PostgreSQL's account may not reach the folder. The data then go where it can, and a link is how
    the next command finds them.

    Returns:
        A path whose parent exists; it may not exist itself yet.

    Raises:
        DatabaseError: the folder that the link names is gone.
    """
    data = folder / "data"
    if data.is_symlink():
        place = data.readlink()
        if not place.parent.is_dir():
            raise DatabaseError(
                f"{data} links to {place}, which is gone; expected the data there; "
                "put them back, or delete the link to begin with an empty database"
            )
        return place
    if data.exists() or binaries.can_reach(folder):
        return data
    place = Path(tempfile.mkdtemp(prefix="data-", dir=binaries.reachable_place())) / "data"
    place.parent.chmod(0o711)
    data.symlink_to(place)
    log.warning("%s is closed to PostgreSQL's account: the data lie in %s", folder, place)
    return place


def prepare_data(data: Path, binaries: Binaries) -> None:
    """Make the data on first use, and check that they can be reached and are of our version.

    Raises:
        DatabaseError: initdb failed, the data cannot be reached, or another major version of PostgreSQL wrote them.
    """
    if not data.exists() or not any(data.iterdir()):
        _initdb(data, binaries)
    elif not binaries.can_reach(data):
        raise DatabaseError(
            f"the owner of {data} cannot reach it; expected every folder above to let others pass; "
            "use chmod o+x on them, or set RCLL_HOME to another folder"
        )
    try:
        found = (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        raise DatabaseError(
            f"{data} holds something else than data of PostgreSQL; expected PG_VERSION in it; "
            "move it away, or set RCLL_HOME to another folder"
        ) from None
    if found != str(binaries.major):
        raise DatabaseError(
            f"the data in {data} are of PostgreSQL {found}; expected {binaries.major}; carry them over with "
            f"pg_dump of PostgreSQL {found}, or set RCLL_HOME to another folder"
        )


def _initdb(data: Path, binaries: Binaries) -> None:
    """Make the folder under another name first, so that half of one never bears the right name."""
    for leftover in data.parent.glob("draft-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=data.parent))
    try:
        binaries.hand_over(draft)
        with tempfile.TemporaryFile() as output:
            code = binaries.run(
                "initdb", "-D", draft.name, "-U", SUPERUSER, *_INITDB, folder=data.parent, output=output
            )
            if code != 0:
                raise DatabaseError(
                    f"PostgreSQL cannot make its data in {data}: {telling_line(output)}; "
                    "correct that, or set RCLL_HOME to another folder"
                )
        draft.rename(data)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
