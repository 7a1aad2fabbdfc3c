"""``desim reproduce``: list, run and report the experiments of papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from desim import plugins
from desim.checks import did_you_mean
from desim.cli.options import JsonFlag, listed
from desim.cli.output import print_json, print_table, print_text
from desim.exceptions import InvalidConfiguration
from desim.notes import plain
from desim.plugins import ExperimentFamily

__all__ = ["Reproduce", "ReproduceOne"]


@dataclass(frozen=True)
class ReproduceOne:
    """Run one experiment of a paper, whose own command line reads the options.

    Attributes
    ----------
    paper, name : str
        Key of the paper, and name of the experiment.
    arguments : tuple of str
        Options of the experiment.
    """

    paper: str
    name: str
    arguments: tuple[str, ...]

    def execute(self) -> int:
        """Run the experiment."""
        return int(_families(self.paper)[self.paper].run(self.name, self.arguments))


@dataclass(frozen=True)
class Reproduce:
    """Run the experiments of a paper, and write one report of tables and figures beside the paper's numbers.

    Without a paper, list all. With the name of an experiment, run only that; the options after it are its own.

    Examples::

        desim reproduce
        desim reproduce lachesis --quick
        desim reproduce lachesis figure7 --quick
        desim reproduce lachesis figure7 --help
        desim reproduce osdec --jobs 8 --out results/osdec
        desim reproduce all --quick --only table1,figure7
        desim reproduce dbf --backend dask --address tcp://scheduler:8786
        desim reproduce lachesis --status
        desim reproduce osdec --report --page docs/reports/osdec.rst

    Finished runs are stored at once: run the same command again to continue after an interruption. The report is
    DIR/report.html, a single self-contained file; beside it, every experiment has a directory with its tables and
    figures.
    """

    paper: Annotated[Positional[str], arg(metavar="PAPER|all", help_behavior_hint="(default: list them)")] = ""
    """Paper key, such as lachesis."""
    quick: bool = False
    """Run for a few minutes at smaller sizes; the numbers are not comparable with the paper's."""
    only: Annotated[str, arg(metavar="NAME,NAME,...", help_behavior_hint="(default: all)")] = ""
    """Experiments to run."""
    seeds: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: set by each experiment)")] = None
    """Number of seeds."""
    jobs: Annotated[int, arg(metavar="N")] = 2
    """Number of parallel processes."""
    backend: Literal["local", "ray", "dask"] = "local"
    """Where runs are simulated: in processes on this machine, or on a Ray or Dask cluster."""
    address: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="(default: start a local cluster)")] = None
    """Address of the cluster's scheduler."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: results/PAPER)")] = None
    """Directory for results and the report."""
    store: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: DIR/runs)")] = None
    """Directory for finished runs."""

    only_list: Annotated[bool, arg(name="list")] = False
    """Only list the experiments."""
    report: bool = False
    """Only write the report, from stored results."""
    page: Annotated[Path | None, arg(metavar="FILE.rst", help_behavior_hint="(default: none)")] = None
    """With --report: documentation page to write as well; its figures go to a directory beside it."""
    status: bool = False
    """Only show the progress: how many runs are stored, failed and remain."""
    as_json: JsonFlag = False
    """With --list or --status: print JSON only."""

    def execute(self) -> int:
        """Run, list or report the experiments; return 1 if a run failed or a check found a violation."""
        if self.page is not None and not self.report:
            raise InvalidConfiguration("--page: has no effect without --report")
        if self.as_json and not (self.status or self.only_list or not self.paper):
            raise InvalidConfiguration("--json: has no effect without --list or --status")
        families = _families(*([] if self.paper in ("", "all") else [self.paper]))
        if self.status:
            return self._tell_status(families)
        if self.only_list or not self.paper:
            return self._tell_all(families)
        if self.report:
            for family in families.values():
                print_text(f"written: {family.report(self.out)}")
                if self.page is not None:
                    print_text(f"written: {family.documentation(self.page, self.out)}")
            return 0
        return self._run(families)

    def _tell_all(self, families: Mapping[str, ExperimentFamily]) -> int:
        """Print the experiments."""
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

    def _tell_status(self, families: Mapping[str, ExperimentFamily]) -> int:
        """Print the progress; return 1 if a run failed."""
        if not self.paper and self.store is None:
            raise InvalidConfiguration("PAPER and --store are missing: expected one of them")
        chosen = [next(iter(families.values()))] if self.store is not None else families.values()
        sweeps = [sweep for family in chosen for sweep in family.sweeps(self.store)]
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

    def _run(self, families: Mapping[str, ExperimentFamily]) -> int:
        """Run the experiments and write the reports."""
        only = listed(self.only)
        if self.only and not only:
            raise InvalidConfiguration(f"--only: got {self.only!r}, expected names of experiments separated by commas")
        unknown = [name for name in only if not any(name in families[paper].modules for paper in families)]
        if unknown:
            known = "; ".join(f"{paper} has {', '.join(families[paper].modules)}" for paper in families)
            raise InvalidConfiguration(f"no experiment {', '.join(unknown)}: {known}")
        statuses = []
        for paper in families:
            here = [name for name in only if name in families[paper].modules]
            if only and not here:
                continue
            out = self.out / paper if self.out is not None and self.paper == "all" else self.out
            statuses.append(families[paper].reproduce(self._arguments(), out=out, store=self.store, only=here))
        return next((status for status in statuses if status), 0)

    def _arguments(self) -> list[str]:
        """Return the arguments that every experiment is called with."""
        arguments = ["--jobs", str(self.jobs)]
        if self.quick:
            arguments.append("--quick")
        if self.seeds is not None:
            arguments += ["--seeds", str(self.seeds)]
        if self.backend != "local":
            arguments += ["--backend", self.backend]
        if self.address is not None:
            arguments += ["--address", self.address]
        return arguments


def _families(*names: str) -> dict[str, ExperimentFamily]:
    """Return the experiments of papers; of all, if none is named."""
    known = plugins.experiment_families()
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            raise InvalidConfiguration(f"unknown paper {name!r}{near}; expected one of {', '.join(known)}, all")
    return {name: known[name] for name in names or known}
