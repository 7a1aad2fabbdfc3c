"""``desim experiment``: list, run and report the experiments of papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg, subcommand

from desim import plugins
from desim.checks import did_you_mean
from desim.cli.options import JsonFlag
from desim.cli.output import print_json, print_table, print_text
from desim.exceptions import InvalidConfiguration
from desim.notes import plain

__all__ = [
    "Experiment",
    "ListExperiments",
    "ReportExperiments",
    "RunExperiment",
    "StatusOfExperiments",
    "find_family",
    "run_directly",
]


def find_family(name: str) -> Any:
    """Return the experiments of a paper.

    Parameters
    ----------
    name : str
        Key of the paper, such as ``"osdec"``.

    Returns
    -------
    ExperimentFamily
        Experiments of the paper; see `desim.plugins`.

    Raises
    ------
    InvalidConfiguration
        If there are no experiments for this key.
    """
    families = plugins.experiment_families()
    if name not in families:
        raise InvalidConfiguration(
            f"unknown paper {name!r}{did_you_mean(name, families)}; expected one of {', '.join(families)}"
        )
    return families[name]


ACTIONS = ("list", "run", "report", "status")


@dataclass(frozen=True)
class ListExperiments:
    """List the experiments.

    Examples::

        desim experiment list
        desim experiment list osdec --json
    """

    paper: Positional[Annotated[str, arg(metavar="PAPER", help_behavior_hint="(default: all)")]] = ""
    """Paper key, such as lachesis."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Print the experiments."""
        families = plugins.experiment_families() if not self.paper else {self.paper: find_family(self.paper)}
        if self.as_json:
            print_json(
                {
                    name: {"title": family.title, "paper": family.source, "experiments": family.descriptions()}
                    for name, family in families.items()
                }
            )
            return 0
        for name, family in families.items():
            rows = [[f"{name} {one}", text] for one, text in family.descriptions().items()]
            print_table(["experiment", "what it is"], rows, words=(1,), title=family.title)
        return 0


@dataclass(frozen=True)
class RunExperiment:
    """Run one experiment; the options after its name belong to the experiment.

    Examples::

        desim experiment run lachesis figure7 --quick
        desim experiment run osdec table1 --seeds 20 --jobs 4
        desim experiment run osdec table1 --help
    """

    paper: Positional[Annotated[str, arg(metavar="PAPER")]]
    """Paper key, such as lachesis."""
    name: Positional[Annotated[str, arg(metavar="NAME")]]
    """Name of the experiment; see `desim experiment list`."""
    arguments: Positional[tuple[str, ...]] = ()
    """Options of the experiment."""

    def execute(self) -> int:
        """Run the experiment."""
        return int(find_family(self.paper).run(self.name, self.arguments))


@dataclass(frozen=True)
class ReportExperiments:
    """Write a report from stored results of experiments, without running any.

    Examples::

        desim experiment report osdec
        desim experiment report osdec --out results/osdec --page docs/reports/osdec.rst
    """

    paper: Positional[Annotated[str, arg(metavar="PAPER")]]
    """Paper key, such as lachesis."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: results/PAPER)")] = None
    """Directory with the results of the experiments; report.html is written there."""
    page: Annotated[Path | None, arg(metavar="FILE.rst", help_behavior_hint="(default: none)")] = None
    """Documentation page to write as well; its figures go to a directory beside it."""

    def execute(self) -> int:
        """Write the report."""
        family = find_family(self.paper)
        print_text(f"written: {family.report(self.out)}")
        if self.page is not None:
            print_text(f"written: {family.documentation(self.page, self.out)}")
        return 0


@dataclass(frozen=True)
class StatusOfExperiments:
    """Show the progress of sweeps: the number of runs stored, failed, and remaining.

    Examples::

        desim experiment status lachesis
        desim experiment status --store results/osdec/runs
    """

    paper: Positional[Annotated[str, arg(metavar="PAPER", help_behavior_hint="(default: that of --store)")]] = ""
    """Paper key, such as lachesis; its runs are in results/PAPER/runs."""
    store: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: results/PAPER/runs)")] = None
    """Directory with the finished runs."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Print the progress; return 1 if a run failed."""
        if not self.paper and self.store is None:
            raise InvalidConfiguration("PAPER and --store are missing: expected one of them")
        families = plugins.experiment_families()
        family = find_family(self.paper) if self.paper else next(iter(families.values()))
        sweeps = family.sweeps(self.store)
        if self.as_json:
            print_json([plain(sweep) for sweep in sweeps])
        elif not sweeps:
            print_text("no runs there yet")
        else:
            rows = [
                [
                    sweep.title,
                    f"{sweep.stored:,} of {sweep.wanted:,}",
                    f"{sweep.failed:,}",
                    "running" if sweep.running else "complete" if sweep.stored == sweep.wanted else "stopped",
                    sweep.started,
                ]
                for sweep in sweeps
            ]
            print_table(["sweep", "runs stored", "failed", "", "started"], rows, words=(3, 4))
        return int(any(sweep.failed for sweep in sweeps))


@dataclass(frozen=True)
class Experiment:
    """List, run and report the experiments of papers.

    Examples::

        desim experiment list
        desim experiment run lachesis figure7 --quick
        desim experiment status lachesis
        desim experiment report lachesis
        desim experiment run lachesis figure7 --help
    """

    action: (
        Annotated[ListExperiments, subcommand("list", description="List the experiments.")]
        | Annotated[RunExperiment, subcommand("run", description="Run one experiment.")]
        | Annotated[ReportExperiments, subcommand("report", description="Write a report from stored results.")]
        | Annotated[StatusOfExperiments, subcommand("status", description="Show the progress of sweeps.")]
    )

    def execute(self) -> int:
        """Execute the action."""
        return self.action.execute()


def run_directly(arguments: Sequence[str]) -> RunExperiment | None:
    """Return the command of ``run PAPER NAME ...``, whose options the experiment parses; None for anything else.

    Parameters
    ----------
    arguments : sequence of str
        Arguments after ``desim experiment``.

    Returns
    -------
    RunExperiment or None
        The command, with the experiment's options unparsed.
    """
    if len(arguments) < 3 or arguments[0] != "run" or any(word.startswith("-") for word in arguments[1:3]):
        return None
    return RunExperiment(arguments[1], arguments[2], tuple(arguments[3:]))
