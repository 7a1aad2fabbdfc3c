"""What experiments take on the command line, and how they start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from desim.cli.output import remark
from desim.cli.transcript import transcript
from desim.exceptions import DesimError, InvalidConfiguration
from desim.experiments.account import Account
from desim.sweep import Backend, Store, Workers

__all__ = ["QUICK_SEEDS", "Options", "run_as_program", "run_experiment"]

#: Seeds that are left with --quick.
QUICK_SEEDS = 2


@dataclass(frozen=True)
class Options:
    """What all experiments take.

    Attributes
    ----------
    quick : bool
        A trial of seconds: smaller sizes, at most two seeds, and every run is checked.
    seeds : int
        Seeds 0, 1, ... of workload and agents.
    jobs : int
        Processes at a time on this machine; a cluster that is given by its address uses all its cores.
    backend : {"local", "ray", "dask"}
        Processes of this machine, a Ray cluster or a Dask cluster.
    address : str or None
        Where the cluster listens, such as ``10.0.0.1:6379`` (Ray) or ``tcp://10.0.0.1:8786`` (Dask); without it, one is
        started on this machine.
    out : Path or None
        Directory of tables and figures; ``results/<paper>/<module>`` if left out.
    store : Path or None
        Directory of finished runs, which all experiments share; ``runs`` beside ``out`` if left out.
    """

    family: ClassVar[str] = "experiments"

    quick: bool = False
    seeds: int = 10
    jobs: int = 2
    backend: Backend = "local"
    address: str | None = None
    out: Path | None = None
    store: Path | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        self.require_positive("seeds", "jobs")
        _ = self.workers  # checks them

    def require_positive(self, *names: str) -> None:
        """Raise InvalidConfiguration if one of these numbers is below 1."""
        for name in names:
            if getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}, want at least 1")

    @property
    def workers(self) -> Workers:
        """Who performs the runs."""
        return Workers(self.jobs, self.backend, self.address)

    @property
    def name(self) -> str:
        """Name of the module."""
        return type(self).__name__.lower()

    @property
    def directory(self) -> Path:
        """Directory of tables and figures."""
        return self.out or Path("results") / self.family / self.name

    @property
    def runs(self) -> Store:
        """Where finished runs are."""
        return Store(self.store or self.directory.parent / "runs")

    @property
    def seed_list(self) -> list[int]:
        """The seeds."""
        return list(range(min(self.seeds, QUICK_SEEDS) if self.quick else self.seeds))

    @property
    def is_reduced(self) -> bool:
        """Whether the runs are smaller than the paper's."""
        return self.quick


Kind = TypeVar("Kind", bound=Options)


def run_as_program(kind: type[Kind], experiment: Callable[[Kind], Any], argv: Sequence[str] | None = None) -> int:
    """Parse the command line and carry out an experiment.

    Parameters
    ----------
    kind : type
        Its options.
    experiment : callable
        What it does with them.
    argv : sequence of str, optional
        The arguments without the name of the program; by default those of the process.

    Returns
    -------
    int
        Exit status: 0 if all went well, 1 if it was interrupted, a run failed or a check found something, 2 for
        unusable arguments.
    """
    try:
        return run_experiment(kind, experiment, argv)
    except KeyboardInterrupt as error:
        remark(f"interrupted: {error}" if str(error) else "interrupted")
        return 1


def run_experiment(kind: type[Kind], experiment: Callable[[Kind], Any], argv: Sequence[str] | None = None) -> int:
    """Do the same as :func:`run_as_program`, but leave Ctrl-C to the caller; arguments and result are the same."""
    import tyro

    module = experiment.__module__
    config = (tyro.conf.FlagCreatePairsOff,)
    begin, error, study = time.perf_counter(), "", None
    options: Kind | None = None
    with transcript() as blocks:
        try:
            options = tyro.cli(
                kind,
                prog=f"python -m {module}" if module != "__main__" else None,
                args=list(sys.argv[1:] if argv is None else argv),
                config=config,
            )
            study = experiment(options)
        except InvalidConfiguration as refusal:
            remark(f"error: {refusal}")
            return 2
        except DesimError as failure:
            error = str(failure)
            remark(f"error: {error}")
        except Exception as fault:
            if options is not None:  # or a report would tell what an earlier run has left
                _leave_account(
                    experiment, options, blocks, time.perf_counter() - begin, f"{type(fault).__name__}: {fault}"
                )
            raise
    assert options is not None
    seconds = time.perf_counter() - begin
    _leave_account(experiment, options, blocks, seconds, error)
    return int(bool(error) or getattr(study, "num_invalid", 0) > 0)


def _leave_account(
    experiment: Callable[..., Any], options: Options, blocks: Sequence[Mapping[str, Any]], seconds: float, error: str
) -> None:
    """Write what a report needs into the directory of the experiment; a storage that is full is told, no more."""
    module = experiment.__module__
    if module == "__main__":
        spec = sys.modules["__main__"].__spec__
        assert spec is not None
        module = spec.name
    try:
        Account.of(module, options, blocks, seconds=seconds, error=error).write(options.directory)
    except DesimError as problem:
        remark(f"error: {problem}")
