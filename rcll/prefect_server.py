"""Prefect's own server for as long as one command runs, where the operator names none.

Prefect can start one itself; that one outlives a killed command for ever, and loads the whole server into the command's
process as well (2-3 s of CPU). Ours is a child that ends when its standard input does: the kernel closes that
pipe however the parent dies. Its socket is bound before it starts, so nobody can take the port meanwhile.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

from rcll.errors import RcllError, Unreachable

#: A busy machine took 60 s.
START_SECONDS = 120.0
ASK_SECONDS = 10.0
_STOP_SECONDS = 10.0


def find_api() -> str | None:
    """The API that the operator named: PREFECT_API_URL, or that of the active Prefect profile; None for none.

    Prefect itself is not asked: it reads its environment when it is imported, and our server is not in it yet.
    """
    if url := os.environ.get("PREFECT_API_URL"):
        return url
    file = os.environ.get("PREFECT_PROFILES_PATH") or Path(os.environ["PREFECT_HOME"]) / "profiles.toml"
    try:
        found = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none, or one that Prefect will complain of
        return None
    active = os.environ.get("PREFECT_PROFILE") or found.get("active")
    return found.get("profiles", {}).get(active, {}).get("PREFECT_API_URL")


def check_api(url: str) -> None:
    """Make sure that a Prefect API answers there.

    Raises:
        Unreachable: nobody does, or somebody else.
    """
    import httpx  # noqa: PLC0415 - 0.2 s

    expected = "expected http://HOST:4200/api of a running 'prefect server start'; correct or unset PREFECT_API_URL"
    try:
        answer = httpx.get(f"{url.rstrip('/')}/health", timeout=ASK_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreachable(f"no Prefect API answers at {_shown(url)}: {type(error).__name__}; {expected}") from None
    is_closed = answer.status_code in (401, 403)  # it wants a key, which Prefect's client sends
    if not is_closed and (answer.status_code != 200 or "json" not in answer.headers.get("content-type", "")):  # noqa: PLR2004
        raise Unreachable(f"{_shown(url)} is no Prefect API (status {answer.status_code}); {expected}")


def start_server() -> str:
    """Start a server for this process and return the address of its API; it ends with this process.

    Raises:
        RcllError: it does not come up.
    """
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
        log = Path(os.environ["PREFECT_HOME"]) / "server.log"
        with log.open("wb") as stream:
            child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "rcll.prefect_server", str(listening.fileno())],
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                pass_fds=[listening.fileno()],
                env=os.environ | {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"},
                start_new_session=True,  # Ctrl-C is for us; we still tell it how the run ended
            )
    atexit.register(_stop, child)
    _wait(url, log)
    return url


def _wait(url: str, log: Path) -> None:
    import httpx  # noqa: PLC0415

    try:
        httpx.get(f"{url}/health", timeout=START_SECONDS).raise_for_status()
    except httpx.HTTPError as error:
        raise RcllError(
            f"Prefect's own server did not come up ({type(error).__name__}); expected an answer in "
            f"{START_SECONDS:.0f} s; see {log}, or start one with 'prefect server start' and set PREFECT_API_URL"
        ) from None


def _stop(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _shown(url: str) -> str:
    """An address without the user and password that it may hold."""
    scheme, found, rest = url.partition("://")
    return f"{scheme}{found}{rest.rpartition('@')[2]}"


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Serve on the inherited socket until standard input ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import uvicorn  # noqa: PLC0415 - the watch comes first

    config = uvicorn.Config(
        "prefect.server.api.server:create_app", factory=True, lifespan="on", log_level="error", access_log=False
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])


if __name__ == "__main__":
    main()
