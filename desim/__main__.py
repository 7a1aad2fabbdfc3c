"""The command line as ``python -m desim``."""

from __future__ import annotations

import sys

from desim.cli import main

if __name__ == "__main__":
    sys.exit(main())
