"""What ``import desim`` costs, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from benchmarks.common import best_and_median, print_table

STATEMENTS = (
    "pass",
    "import numpy",
    "import simpy, numpy",
    "import desim",
    "import desim.agents.batch",
    "import polars",
)


def main() -> None:
    """Print seconds above those of an interpreter that does nothing."""
    calls = [partial(subprocess.run, [sys.executable, "-c", statement], check=True) for statement in STATEMENTS]
    seconds = [best for best, _ in best_and_median(7, *calls)]
    print_table(
        "Start of a fresh interpreter (best of 7)",
        ["statement", "s", "above 'pass'"],
        [[statement, f"{s:.3f}", f"{s - seconds[0]:.3f}"] for statement, s in zip(STATEMENTS, seconds, strict=True)],
    )
    heavy = ("torch", "polars", "matplotlib")
    check = f"import sys, desim.agents.batch; print(*(name in sys.modules for name in {heavy}))"
    loaded = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True).stdout
    print(f"  loaded after import desim, desim.agents.batch (torch, polars, matplotlib): {loaded.strip()}")


if __name__ == "__main__":
    main()
