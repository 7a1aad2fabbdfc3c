"""The command line: ``desim COMMAND``."""

from desim.cli.app import main

__all__ = ["main"]
