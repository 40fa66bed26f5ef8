"""Commands of the HTTP service: serve, and the keys that open it."""

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from rcll.cli.output import Json, Schemas, err, out, print_json, print_table
from rcll.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from socket import socket

    from rcll.walk.place import Place

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

keys = typer.Typer(
    no_args_is_help=True,
    help=(
        "Keys of the service, each with the banks that it may read and write.\n\n"
        "Examples: rcll keys add nightly --read 'team-*' | rcll keys list | rcll keys revoke KEY"
    ),
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(serve)
    app.add_typer(keys, name="keys")


def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen on; beyond loopback a key is needed.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 8711,
    rate: Annotated[str, typer.Option("--rate-limit", help="Calls of one key, such as 100/second.")] = "100/second",
    schema: Schemas = None,
) -> None:
    """Answer over HTTP: retain, recall, rooms, tunnels, closets, bridge; /docs describes every route.

    Examples: rcll serve | rcll serve --host 0.0.0.0 --port 8711 | RCLL_DATABASE=rcll_demo rcll serve
    """
    import uvicorn

    from rcll.service.app import make_app
    from rcll.walk.place import open_places

    with open_places(schema or ()) as opened:
        places = [_ready(place) for place in opened]
        _check_open(places, host)
        app = make_app(places, rate=_checked(rate), needs_key=host not in _LOOPBACK)
        logging.basicConfig(format="%(message)s")
        logging.getLogger("rcll.access").setLevel(logging.INFO)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, ws="none"))
        with _listening(host, port) as listener:
            shown = f"[{host}]" if ":" in host else host
            err.print(f"listening on http://{shown}:{port}, routes at /docs; stop with Ctrl+C", markup=False)
            server.run(sockets=[listener])


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    read: Annotated[list[str] | None, typer.Option("--read", help="Banks it may read, such as team-*; *: all.")] = None,
    write: Annotated[list[str] | None, typer.Option("--write", help="Banks it may write, and read.")] = None,
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Make a key. It is shown this once; what is kept is a hash.

    Examples: rcll keys add ci --write 'team-*' | rcll keys add reader --read '*' --json
    """
    from rcll.service.access import make_key
    from rcll.store.keys import add_key

    may_read, may_write = [*(read or []), *(write or [])], list(write or [])
    if not may_read or not all(pattern.strip() for pattern in may_read):
        raise InputError("found no bank that the key may open; expected --read or --write with names or patterns")
    if not 0 < len(name.strip()) <= 200:  # noqa: PLR2004 - a name, not a text
        raise InputError(f"the key's name has {len(name)} characters; expected 1 to 200")
    made = make_key()
    with _one_place(schema) as place, place.database.connect() as conn:
        add_key(
            conn,
            place.tenant,
            key_id=made.key_id,
            name=name.strip(),
            kept_hash=made.hash,
            may_read=may_read,
            may_write=may_write,
        )
    if json:
        print_json({"key_id": made.key_id, "key": made.secret, "may_read": may_read, "may_write": may_write})
    else:
        out.print(made.secret, markup=False)
        err.print("this is the only time that the key is shown", style="yellow")


@keys.command("list")
def list_all(schema: Schemas = None, json: Json = False) -> None:
    """List keys, newest first; their secrets are not kept.

    Examples: rcll keys list --json
    """
    from rcll.store.keys import list_keys

    with _one_place(schema) as place, place.database.connect() as conn:
        found = list_keys(conn, place.tenant)
    if json:
        print_json([key._asdict() for key in found])
        return
    rows = [
        (
            k.key_id,
            k.name,
            ", ".join(k.may_read),
            ", ".join(k.may_write),
            f"{k.created_at:%Y-%m-%d %H:%M}",
            "revoked" if k.revoked_at else "open",
        )
        for k in found
    ]
    print_table("keys", ("key", "name", "reads", "writes", "made", "state"), rows)


@keys.command("revoke")
def revoke(key_id: Annotated[str, typer.Argument(help="Number of the key.")], schema: Schemas = None) -> None:
    """Close a key for good; a running server refuses it from its next call on.

    Examples: rcll keys revoke 3f9a0c21b7de
    """
    from rcll.store.keys import revoke_key

    with _one_place(schema) as place, place.database.connect() as conn:
        if not revoke_key(conn, place.tenant, key_id):
            raise InputError(f"there is no open key '{key_id[:40]}'; see rcll keys list")
    out.print(f"key {key_id} is revoked", markup=False)


@contextmanager
def _one_place(schema: list[str] | None) -> "Generator[Place]":
    from rcll.walk.place import open_places

    with open_places(schema or ()) as places:
        if len(places) != 1:
            names = ", ".join(place.tenant.schema for place in places)
            raise InputError(f"found the schemas {names}; a key is for one; name it with --schema")
        yield _ready(places[0])


def _ready(place: "Place") -> "Place":
    """The place migrated: on the embedded server without being asked."""
    from dataclasses import replace

    from rcll.store.catalog import read_tenants
    from rcll.store.migrate import migrate, pending

    with place.database.connect() as conn:
        if not pending(conn, place.tenant):
            return place
    if not place.database.is_embedded:
        raise InputError(f"schema '{place.tenant.schema}' is not migrated; expected rcll's columns; run rcll migrate")
    migrate(place.database, place.tenant)
    with place.database.connect() as conn:
        (tenant,) = read_tenants(conn, [place.tenant.schema])
    return replace(place, tenant=tenant)


def _check_open(places: "Sequence[Place]", host: str) -> None:
    """Refuse to be open to strangers, or to guess which tenant a caller without a key means."""
    from rcll.store.keys import list_keys

    is_kept = False
    for place in places:
        with place.database.connect() as conn:
            is_kept = is_kept or any(key.revoked_at is None for key in list_keys(conn, place.tenant))
    if is_kept:
        return
    if host not in _LOOPBACK:
        raise InputError(
            f"listening on {host} without a key would open every bank to everybody; make one with rcll keys add"
        )
    if len(places) > 1:
        names = ", ".join(place.tenant.schema for place in places)
        raise InputError(f"found the schemas {names} and no key that tells which is meant; name one with --schema")


def _listening(host: str, port: int) -> "socket":
    """The port, taken before anything is said.

    Raises:
        InputError: somebody has it, or the address is not this machine's.
    """
    import socket

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"cannot listen on {host}:{port}: {reason}; expected a free port; name one with --port"
        ) from None
    return listener


def _checked(rate: str) -> str:
    import limits

    try:
        limits.parse(rate)
    except ValueError:
        raise InputError(f"'{rate[:40]}' is no rate; expected calls in a time, such as 100/second") from None
    return rate
