"""Every command explains itself."""

import click
import pytest
import typer.main

from rcll.cli.app import app


def _commands(command: click.Command, path: str = "rcll"):
    yield path, command
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(child, f"{path} {name}")


COMMANDS = {path: command for path, command in _commands(typer.main.get_command(app)) if path != "rcll"}


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_help_shows_examples(path):
    """Help of each command and group ends with examples of this very command."""
    text = COMMANDS[path].help or ""
    assert "Examples:" in text
    assert path in text.partition("Examples:")[2]
