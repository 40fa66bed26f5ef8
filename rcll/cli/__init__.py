"""Command line: thin commands that call the flow or the store and print what came of it."""

from rcll.cli.app import main

__all__ = ["main"]
