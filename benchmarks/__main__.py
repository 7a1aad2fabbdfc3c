"""Run every benchmark: ``python -m benchmarks [NAME ...]``; ``figures`` takes options of its own."""

from __future__ import annotations

import importlib
import sys

from benchmarks import figures

BENCHMARKS = (
    "figures",
    "growth",
    "imports",
    "workloads",
    "replay",
    "backfilling",
    "scaling",
    "multiserver",
    "dag",
    "dag_decisions",
    "rollout",
    "deferrable",
    "learning",
)


def main() -> None:
    """Run the benchmarks that are named, or all of them."""
    if sys.argv[1:2] == ["figures"]:
        figures.main(sys.argv[2:])
        return
    for name in sys.argv[1:] or BENCHMARKS:
        if name not in BENCHMARKS:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
        importlib.import_module(f"benchmarks.{name}").main()
        print(flush=True)


if __name__ == "__main__":
    main()
