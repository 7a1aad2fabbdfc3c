"""What experiments take on the command line, and how they start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from desim.cli.output import remark
from desim.exceptions import DesimError, InvalidConfiguration
from experiments.store import Store

__all__ = ["QUICK_SEEDS", "Options", "run_as_program", "run_modules"]

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
        Processes at a time.
    out : Path or None
        Directory of tables and figures; ``results/<paper>/<module>`` if left out.
    store : Path or None
        Directory of finished runs, which all experiments share; ``runs`` beside ``out`` if left out.
    """

    family: ClassVar[str] = "experiments"

    quick: bool = False
    seeds: int = 10
    jobs: int = 2
    out: Path | None = None
    store: Path | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        self.require_positive("seeds", "jobs")

    def require_positive(self, *names: str) -> None:
        """Raise InvalidConfiguration if one of these numbers is below 1."""
        for name in names:
            if getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}, want at least 1")

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
    import tyro

    config = (tyro.conf.FlagCreatePairsOff,)
    try:
        options: Kind = tyro.cli(
            kind,
            prog=f"python -m {experiment.__module__}" if experiment.__module__ != "__main__" else None,
            args=list(sys.argv[1:] if argv is None else argv),
            config=config,
        )
        study = experiment(options)
    except KeyboardInterrupt as error:
        remark(f"interrupted: {error}" if str(error) else "interrupted")
        return 1
    except InvalidConfiguration as error:
        remark(f"error: {error}")
        return 2
    except DesimError as error:
        remark(f"error: {error}")
        return 1
    return int(getattr(study, "num_invalid", 0) > 0)


def run_modules(package: str, modules: Sequence[str], argv: Sequence[str] | None = None) -> int:
    """Run the experiments of a package with the same arguments, each with its own number of seeds unless one is given.

    Parameters
    ----------
    package : str
        Such as ``"experiments.lachesis"``.
    modules : sequence of str
        Each has a function of its own name and options whose class is that name with a capital.
    argv : sequence of str, optional
        What every experiment takes, without ``--out``: each writes into its own directory.

    Returns
    -------
    int
        The first exit status that is not 0, else 0; what follows a failed experiment is not run.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in modules:
        module = import_module(f"{package}.{name}")
        status = run_as_program(getattr(module, name.capitalize()), getattr(module, name), arguments)
        if status:
            return status
    return 0
