"""``desim compare``: compare several agents on the same workloads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from tyro.conf import arg

from desim.cli.options import JsonFlag, listed, problem_of
from desim.cli.output import print_json, print_text
from desim.cli.run import print_repairs
from desim.comparing import with_pages
from desim.exceptions import DesimError, InvalidConfiguration
from desim.formatting import how_many
from desim.notes import console, print_note
from desim.plotting.axes import FigureFormat, Style
from desim.provenance import command_line
from desim.scenario import ProblemInstance
from desim.sweep import Run
from desim.sweep.comparison import Comparison
from desim.sweep.study import ComparisonPlan, StudyOptions
from desim.sweep.tables import as_text

__all__ = ["Compare", "print_warnings"]


@dataclass(frozen=True, kw_only=True)
class Compare(StudyOptions):
    """Simulate several agents on the same workloads, check every run, and compare their metrics.

    Examples::

        desim compare batch --agents fcfs,sjf,easy-fcfs --seeds 10 --load 0.9 --out comparison
        desim compare batch --agents easy,easy-sjf --trace KTH-SP2-1996-2.swf.gz --baseline easy
        desim compare batch --agents fcfs,easy --load 0.6,0.7,0.8,0.9 --out sweep
        desim compare dag --agents heft,rank-up-deft,fifo-eft --metric turnaround_time_mean --interval bootstrap
        desim compare deferrable --agents fifo,earliest-deadline,list-plan --workload fluctuating
        desim compare multiserver --agents exact-oga-reactive,drf,fairness --seeds 5 --slots 2000
        desim compare batch --agents my_agents:Shortest,fcfs --metric my_metrics:wait_x --better lower
        desim compare my_problem:make --agents my_agents:A,my_agents:B --set size=3
        desim compare study.toml

    `desim compare PROBLEM --help` lists the options of a problem. Each seed gives one workload, generated before any
    agent is asked, so all agents get the same workloads. Finished runs are stored in DIR/runs at once. The same command
    run again continues after an interruption; a different one reuses the runs that it can: those of which nothing that
    they have used has changed, neither code nor files nor environment variables that your modules name. A workload file
    of batch is simulated once per agent, unless cores fail at random. A problem option may have several values, such as
    0.6,0.7 for --load. Each gives one comparison, and a table and a figure show all of them.

    A file whose name ends in .toml holds the same options, `name = value`, with the problem and lists of agents and
    values; options after it take precedence. Every comparison with --out writes such a file.
    """

    problem: ClassVar[str | None] = None
    agents: Annotated[str, arg(metavar="NAME,NAME,...")]
    """Agents to compare: names from `desim list`, or MODULE:NAME for your own."""
    style: Style = "screen"
    """Use of the figures: paper fills one column of a two-column page (3.5 inches), paper-wide both (7.16 inches)."""
    format: FigureFormat = "png"
    """File format of the figures."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Simulate, compare, print, write; return 1 if a run is invalid, failed or was interrupted."""
        found = self.compared()
        if self.as_json:
            print_json(found.described)
        else:
            _print(found)
        return print_warnings(found)

    def compared(self) -> Comparison:
        """Simulate, compare, write."""
        problem, names = problem_of(self), listed(self.agents)
        if not names:
            raise InvalidConfiguration(f"--agents: got {self.agents!r}, expected names separated by commas")
        plan = ComparisonPlan(
            problem=problem,
            options=getattr(self, "options", None),
            agents=tuple(names),
            **self.study_options(),
            tell=None if self.as_json else _print_workload,
            command=command_line(),
            look={
                name: getattr(self, name)
                for name in ("style", "format")
                if getattr(self, name) != getattr(Compare, name)
            },
        )
        return with_pages(plan.run(), self.out, style=self.style, file_format=self.format)


def print_warnings(found: Comparison) -> int:
    """Print what is wrong with a comparison on standard error, and return the exit status.

    Parameters
    ----------
    found : Comparison
        Result of the comparison.

    Returns
    -------
    int
        Exit status of the command.
    """
    for runs in found.failed.values():
        if not isinstance(runs[0].error, DesimError):
            print_note(runs[0].trace.rstrip())
    for text in found.issues:
        print_note(f"desim: {text}")
    return found.status


def _print_workload(instance: ProblemInstance, runs: Sequence[Run]) -> None:
    first, last = runs[0].seed, runs[-1].seed
    if instance.num_windows is not None:
        seeds = ""  # the size tells how many windows there are
    else:
        seeds = f", seeds {first} to {last}" if last > first else f", seed {first}" if instance.is_drawn else ""
    print_text(f"{instance.name}: {instance.size}{seeds}\n")
    if instance.report is not None:
        print_repairs(instance.report.as_dict())


def _print(found: Comparison) -> None:
    reused = sum(run.reused for run in found.all_runs)
    checked = [run.validation["valid"] for run in found.all_runs if run.validation["valid"] is not None]
    print(as_text(found, console(sys.stdout)), end="")  # noqa: T201
    valid = f"{sum(checked)} valid" if checked else "not checked"
    print_text(f"{how_many(len(found.all_runs), 'run')}, {reused} of them from the store; {valid}")
    for path in found.files:
        print_text(f"written: {path}")
