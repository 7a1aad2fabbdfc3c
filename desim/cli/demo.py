"""``desim demo``: compare policies on a generated workload and write a page."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from desim.cli.compare import Compare
from desim.cli.options import command_with_options
from desim.cli.output import print_text
from desim.problems.batch.options import BatchOptions, WorkloadOptions

__all__ = ["Demo"]

AGENTS = ("fcfs", "sjf", "f1", "backfilling-fcfs", "easy-fcfs", "easy-sjf", "conservative-fcfs")

#: Fewer than eight seeds cannot make a difference from the baseline significant, whatever it is.
SEEDS = 10
WORKLOAD = WorkloadOptions(cores=256, jobs=1000, load=0.95, overestimate=3.0)


@dataclass(frozen=True)
class Demo:
    """Compare seven policies on 10 generated workloads of 1000 jobs for 256 cores, in about a minute.

    Examples::

        desim demo
        desim demo --out demo --workers 1
    """

    out: Annotated[Path, arg(metavar="DIR")] = Path("demo")
    """Directory for the page, tables, figures and records."""
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: one per processor)")] = None
    """Number of worker processes."""

    def execute(self) -> int:
        """Simulate, compare, and print where the page is."""
        begin = time.perf_counter()
        print_text(
            f"{len(AGENTS)} policies, jobs of the Lublin-Feitelson model, load {WORKLOAD.load}, requested times "
            f"up to {WORKLOAD.overestimate:g} times the run times"
        )
        compare: Any = command_with_options(Compare, "batch")
        options = BatchOptions(workload=WORKLOAD)
        comparison = compare(agents=",".join(AGENTS), seeds=SEEDS, out=self.out, workers=self.workers, options=options)
        status: int = comparison.execute()
        if status == 0:
            print_text(f"\ndone in {time.perf_counter() - begin:.0f} s; open {self.out / 'view.html'} in a browser")
        return status
