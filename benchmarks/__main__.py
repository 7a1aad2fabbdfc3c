"""Run every benchmark: ``python -m benchmarks [NAME ...]``; ``figures`` takes options of its own.

``long``, with its ten million jobs, runs only when it is named.
"""

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
    "engines",
    "simgrid",
    "backfilling",
    "nodes",
    "scaling",
    "multiserver",
    "dag",
    "dag_decisions",
    "rollout",
    "deferrable",
    "learning",
    "vector",
    "shares",
)
ON_DEMAND = ("long",)


def main() -> None:
    """Run the benchmarks that are named, or all of them; fail at the end if any has found that something grew."""
    if sys.argv[1:2] == ["figures"]:
        figures.main(sys.argv[2:])
        return
    faults: list[str] = []
    for name in sys.argv[1:] or BENCHMARKS:
        if name not in BENCHMARKS + ON_DEMAND:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS + ON_DEMAND)}")
        faults += importlib.import_module(f"benchmarks.{name}").main() or []
        print(flush=True)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
