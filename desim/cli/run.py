"""``desim run``: one run, checked and measured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from desim import plugins
from desim.cli.options import JsonFlag, MetricOptions, SystemOptions, WorkloadOptions
from desim.cli.output import plain, print_json, print_table, print_text, progress, remark
from desim.cli.scenario import Scenario, load_workload, measure, replay, validation_document
from desim.cli.targets import clear_result
from desim.result import Result

__all__ = ["Run", "print_metrics", "print_repairs"]


@dataclass(frozen=True)
class Run:
    """Simulate a workload with one agent, check the records, and print the metrics.

    Examples::

        desim run batch --cores 256 --jobs 5000 --load 0.9 --agent easy-fcfs --out easy
        desim run batch --trace KTH-SP2-1996-2.swf.gz --agent sjf --out sjf
        desim run batch --trace huge.swf.gz --stream --agent fcfs --out fcfs --force
        desim run batch --mean-time-to-failure 1e7 --mean-time-to-repair 3600 --json

    Ctrl-C ends a run early; what it has recorded until then is complete and stays.
    """

    problem: Positional[Literal["batch"]]
    """What to simulate."""
    agent: Annotated[str, arg(metavar="NAME")] = "easy-fcfs"
    """Who decides; see `desim list`."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: nowhere)")] = None
    """Where to write the records."""
    force: bool = False
    """Replace a result that is there already."""
    stream: bool = False
    """Take the jobs one by one from the file or generator: memory follows the jobs in the system."""
    as_json: JsonFlag = False
    """Print JSON only."""
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    system: SystemOptions = field(default_factory=SystemOptions)
    metrics: MetricOptions = field(default_factory=MetricOptions)

    def execute(self) -> int:
        """Simulate, check, print; 1 if the run was interrupted or is not valid."""
        plugins.create_agent(self.problem, self.agent)  # before the workload is read and the directory cleared
        workload = load_workload(self.problem, self.workload, stream=self.stream)
        scenario = Scenario(self.problem, self.agent, self.workload, self.system)
        if self.out is not None:
            clear_result(self.out, force=self.force)
        begin = time.perf_counter()
        with progress(self.agent, workload.num_jobs, "jobs") as listen:
            result = replay(scenario, workload, out=self.out, listen=listen)
        seconds = time.perf_counter() - begin
        repairs = workload.report.as_dict() if workload.report is not None else None
        if result.info["status"] == "interrupted":
            where = f"complete records up to then are in {self.out}" if self.out else "nothing was to be stored"
            remark(f"desim: interrupted at {result.info['end_time']:.10g} s of simulated time; {where}")
        found = measure(result, workload, self.metrics)
        if self.as_json:
            print_json(
                {
                    "run": result.info,
                    "workload": {"name": workload.name, "cores": workload.num_cores, "repairs": repairs},
                    "options": plain(scenario),
                    "metrics": found.metrics,
                    "validation": validation_document(found.validation),
                    "records": self.out,
                    "seconds": seconds,
                }
            )
        else:
            self._print(result, workload, repairs, seconds)
            print_metrics(found.metrics)
            print_text(str(found.validation), "" if found.validation.ok else "bold red")
            if self.out is not None:
                print_text(f"records: {self.out}")
        return 0 if found.validation.ok and result.info["status"] == "complete" else 1

    def _print(
        self, result: Result, workload: plugins.Workload, repairs: Mapping[str, Any] | None, seconds: float
    ) -> None:
        source = f"{workload.name}, seed {self.workload.seed}" if repairs is None else workload.name
        info = result.info
        end = f"{info['status']} at {info['end_time']:,.10g} s, simulated in {seconds:.2f} s"
        print_text(f"{info['agent']} on {info['num_cores']:,} cores, {source}: {end}")
        if repairs is not None:
            print_repairs(repairs)


def print_repairs(repairs: Mapping[str, Any]) -> None:
    """Print what a reader dropped and changed, if anything.

    Parameters
    ----------
    repairs : mapping
        A repair report as plain values.
    """
    reasons = [reason for reason in repairs["reasons"].values() if reason["action"] in ("dropped", "changed")]
    if not reasons:
        return
    place = f"{repairs['unit']}s"
    rows = [
        [
            reason["meaning"],
            reason["action"],
            f"{reason['count']:,}",
            ", ".join(map(str, reason["places"])) + (", ..." if reason["count"] > len(reason["places"]) else ""),
        ]
        for reason in reasons
    ]
    title = f"{repairs['rows']:,} rows of the file: {repairs['jobs']:,} jobs, {repairs['dropped']:,} rows dropped"
    print_table(["repair", "action", "rows", place], rows, words=(1, 3), title=title)


def print_metrics(metrics: Mapping[str, float]) -> None:
    """Print all metrics with their meaning.

    Parameters
    ----------
    metrics : mapping of str to float
        By name.
    """
    from desim.metrics import BATCH_METRICS
    from desim.plotting._metric_names import format_value

    rows = [[name, format_value(value), BATCH_METRICS.get(name, "")] for name, value in metrics.items()]
    print_table(["metric", "value", "meaning"], rows, words=(2,))
