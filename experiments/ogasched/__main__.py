"""All experiments one after another, and their report: ``python -m desim.experiments.ogasched --quick``."""

from __future__ import annotations

import sys

from desim.cli import main

if __name__ == "__main__":
    sys.exit(main(["reproduce", "ogasched", *sys.argv[1:]]))
