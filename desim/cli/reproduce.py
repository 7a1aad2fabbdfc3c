"""``desim reproduce``: run all experiments of a paper and write one report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from desim import plugins
from desim.checks import did_you_mean
from desim.cli.options import listed
from desim.exceptions import InvalidConfiguration

__all__ = ["Reproduce"]


@dataclass(frozen=True)
class Reproduce:
    """Run all experiments of a paper, and write one report of tables and figures beside the paper's numbers.

    Examples::

        desim reproduce lachesis --quick
        desim reproduce osdec --jobs 8 --out results/osdec
        desim reproduce all --quick --only table1,figure7
        desim reproduce dbf --backend dask --address tcp://scheduler:8786

    Finished runs are stored at once: run the same command again to continue after an interruption. The report is
    DIR/report.html, a single self-contained file; beside it, every experiment has a directory with its tables and
    figures.
    """

    paper: Positional[Annotated[str, arg(metavar="PAPER|all")]]
    """Paper key; see `desim experiment list`."""
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

    def execute(self) -> int:
        """Run the experiments; return 1 if a run failed or a check found a violation."""
        families = plugins.experiment_families()
        if self.paper != "all" and self.paper not in families:
            near = did_you_mean(self.paper, families)
            raise InvalidConfiguration(
                f"unknown paper {self.paper!r}{near}; expected one of {', '.join(families)}, all"
            )
        wanted = list(families) if self.paper == "all" else [self.paper]
        only = listed(self.only)
        if self.only and not only:
            raise InvalidConfiguration(f"--only: got {self.only!r}, expected names of experiments separated by commas")
        unknown = [name for name in only if not any(name in families[paper].modules for paper in wanted)]
        if unknown:
            known = "; ".join(f"{paper} has {', '.join(families[paper].modules)}" for paper in wanted)
            raise InvalidConfiguration(f"no experiment {', '.join(unknown)}: {known}")
        statuses = []
        for paper in wanted:
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
