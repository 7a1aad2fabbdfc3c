"""``desim demo``: policies compared on a generated workload, with a report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from desim.cli.compare import Compare
from desim.cli.options import WorkloadOptions
from desim.cli.output import print_text

__all__ = ["Demo"]

AGENTS = ("fcfs", "sjf", "f1", "wfp3", "backfilling-fcfs", "easy-fcfs", "easy-sjf", "conservative-fcfs")


@dataclass(frozen=True)
class Demo:
    """Compare eight policies on 3 generated workloads of 2000 jobs for 256 cores; takes less than a minute.

    Examples::

        desim demo
        desim demo --out demo --workers 1
    """

    out: Annotated[Path, arg(metavar="DIR")] = Path("demo")
    """Where to write the report, tables, figures and records."""
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: one a processor)")] = None
    """How many processes to use."""

    def execute(self) -> int:
        """Simulate, compare, and say where the report is."""
        begin = time.perf_counter()
        workload = WorkloadOptions(cores=256, jobs=2000, load=0.95, overestimate=3.0)
        print_text(
            f"{len(AGENTS)} policies on {workload.cores} cores, {workload.jobs:,} jobs of the Lublin-Feitelson model, "
            f"offered load {workload.load}, run times overestimated up to {workload.overestimate:g} times, 3 seeds\n"
        )
        comparison = Compare(
            problem="batch", agents=",".join(AGENTS), seeds=3, out=self.out, workers=self.workers, workload=workload
        )
        status = comparison.execute()
        if status == 0:
            print_text(f"\ndone in {time.perf_counter() - begin:.0f} s; open {self.out / 'report.html'} in a browser")
        return status
