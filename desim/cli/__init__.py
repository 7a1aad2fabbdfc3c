"""The command line: ``desim run|compare|validate|plot|convert|list|demo``."""

from desim.cli.app import main

__all__ = ["main"]
