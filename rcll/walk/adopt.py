"""Makes the labels of banks rcll's own, as a run of its own."""

from collections.abc import Sequence
from uuid import uuid4

from rcll.errors import InputError
from rcll.store.adopt import ForeignLabel, adopt_bank, preview_adoption
from rcll.store.lease import hold_banks
from rcll.store.ledger import finish_run, start_run
from rcll.store.oneline import one_line_errors
from rcll.walk.place import Place


def preview(place: Place, bank: str) -> list[ForeignLabel]:
    """What :func:`adopt` would take over in a bank.

    Raises:
        InputError: the tenant has no ledger yet.
    """
    if not place.tenant.migrated:
        raise InputError(
            f"schema '{place.tenant.schema}' has no ledger yet; expected a migrated one; run rcll migrate first"
        )
    with place.database.connect() as conn:
        return preview_adoption(conn, place.tenant, bank)


def adopt(place: Place, banks: Sequence[str]) -> dict[str, int]:
    """Take over the foreign labels of some banks; returns how many units of each were adopted.

    Raises:
        Busy: another run holds one of them.
    """
    database, tenant = place.database, place.tenant
    run_id, status, adopted = uuid4(), "failed", dict[str, int]()
    with one_line_errors("adopting labels"), hold_banks(database, tenant, banks, run_id) as lease:
        with database.connect() as conn:  # on record once it holds its banks; refused, it never began
            asked = {"banks": list(banks)}
            start_run(conn, tenant, kind="adopt", taxonomy_hash="", parameters=asked, run_id=run_id)
        try:
            for bank in banks:
                adopted[bank] = adopt_bank(database, tenant, bank, lease)
            status = "done"
        finally:
            with database.connect() as conn:
                finish_run(conn, tenant, run_id, status=status, summary={"adopted": adopted})
    return adopted
