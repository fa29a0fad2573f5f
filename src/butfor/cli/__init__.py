"""The command line: parses, calls, prints. Everything else is in the library."""

from butfor.cli.app import main

__all__ = ["main"]
