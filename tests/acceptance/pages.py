"""Pages whose commands are run and whose answers are compared, or written anew."""

import os
import re
import subprocess
import sys
from pathlib import Path

_BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def answered(page: str, home: Path) -> str:
    """The page with its commands run under an RCLL_HOME: ``sh`` blocks as they stand, ``console`` ones with answers."""

    def run_block(block: re.Match[str]) -> str:
        kind, body = block.groups()
        if kind == "sh":
            for line in body.splitlines():
                _run(line, home)
            return block[0]
        commands = [line for line in body.splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"{line}\n{_run(line[2:], home)}" for line in commands) + "```"

    return _BLOCK.sub(run_block, page)


def _run(command: str, home: Path) -> str:
    """Standard output of a command, less blanks at the ends of lines."""
    programs = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RCLL_", "COLUMNS"))}
    environment |= {"RCLL_HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-c", command], env=environment, cwd=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
