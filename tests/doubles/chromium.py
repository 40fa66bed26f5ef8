"""A real headless Chromium, driven by its debugging protocol: what it logs, what it asks for, what it shows.

Not a double: it stands here because tests of several tiers may use it.
"""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 90


@contextmanager
def chromium() -> Generator["Page"]:
    """Start it with a profile of its own and give one blank page; skips where the program is missing."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("no chromium on this machine; install Debian's package chromium")
    with tempfile.TemporaryDirectory(prefix="rcll-chromium-", ignore_cleanup_errors=True) as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        flags += ["--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={profile}", "about:blank"]
        with Path(os.devnull).open("wb") as nowhere:
            process = subprocess.Popen([program, *flags], stdout=nowhere, stderr=nowhere)
        try:
            yield Page(_address(Path(profile)))
        finally:
            process.terminate()
            process.wait(30)


def _address(profile: Path) -> str:
    """Where the browser listens; it writes its port when it is ready."""
    file = profile / "DevToolsActivePort"
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        if file.is_file() and len(lines := file.read_text().split()) > 1:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise AssertionError(f"chromium did not open its port in {_SECONDS} s")


class Page:
    """One page. ``errors`` are what its console and security policy complain of, ``requests`` all its addresses."""

    def __init__(self, address: str) -> None:
        self._socket = connect(address, max_size=None, open_timeout=_SECONDS)
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer, taking in events meanwhile."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while True:
            answer = json.loads(self._socket.recv(timeout=_SECONDS))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._take(answer)

    def _take(self, event: dict[str, Any]) -> None:
        method, values = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(values["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and values["type"] in {"error", "warning", "assert"}:
            self.errors.append(str(values["args"])[:500])
        elif method == "Log.entryAdded" and values["entry"]["level"] in {"error", "warning"}:
            self.errors.append(values["entry"]["text"])

    def size(self, width: int, height: int, *, scheme: str = "light") -> None:
        """Set the window, and which colours the reader prefers."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, file: Path, ready: str) -> float:
        """Open a file and wait until an expression holds; returns the seconds it took."""
        started = time.monotonic()
        self.call("Page.navigate", url=file.as_uri())
        while time.monotonic() - started < _SECONDS:
            if self.ask(f"document.readyState === 'complete' && Boolean({ready})"):
                return time.monotonic() - started
            time.sleep(0.05)
        raise AssertionError(f"{ready} did not come true; errors: {self.errors}")

    def ask(self, expression: str) -> Any:
        """Value of an expression on the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, file: Path) -> Path:
        """The whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, fromSurface=True)
        file.write_bytes(base64.b64decode(shot["data"]))
        return file
