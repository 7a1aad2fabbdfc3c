"""What all experiments take on the command line, and how they start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from desim.cli.output import remark
from desim.exceptions import DesimError, InvalidConfiguration
from experiments.ogasched.simulating import Setting
from experiments.store import Store

__all__ = ["Options", "run_as_program"]

#: With --quick: what T and the number of nodes are divided by, and how many seeds are left.
QUICK_SLOTS, QUICK_NODES, QUICK_SEEDS = 50, 2, 2


@dataclass(frozen=True)
class Options:
    """What all experiments take.

    Attributes
    ----------
    quick : bool
        A trial of seconds: T divided by 50, the nodes by 2, at most two seeds, and every run is checked.
    seeds : int
        Seeds 0, 1, ... of workload and agents.
    jobs : int
        Processes at a time.
    out : Path or None
        Directory of tables and figures; ``results/ogasched/<module>`` if left out.
    store : Path or None
        Directory of finished runs, which all experiments share; ``runs`` beside ``out`` if left out.
    divide_slots : int
        What T is divided by, for smaller trials.
    divide_nodes : int
        What the number of nodes is divided by, for smaller trials.
    """

    quick: bool = False
    seeds: int = 10
    jobs: int = 2
    out: Path | None = None
    store: Path | None = None
    divide_slots: int = 1
    divide_nodes: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("seeds", "jobs", "divide_slots", "divide_nodes"):
            if getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}, want at least 1")

    @property
    def name(self) -> str:
        """Name of the module."""
        return type(self).__name__.lower()

    @property
    def directory(self) -> Path:
        """Directory of tables and figures."""
        return self.out or Path("results/ogasched") / self.name

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
        return self.quick or self.divide_slots > 1 or self.divide_nodes > 1

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for.

        Parameters
        ----------
        setting : Setting
            In the paper's size.

        Returns
        -------
        Setting
            With at least 10 slots and as many nodes as ports, unless it had fewer before.
        """
        slots = max(self.divide_slots, QUICK_SLOTS if self.quick else 1)
        nodes = max(self.divide_nodes, QUICK_NODES if self.quick else 1)
        return replace(
            setting,
            num_slots=max(setting.num_slots // slots, min(setting.num_slots, 10)),
            num_nodes=max(setting.num_nodes // nodes, min(setting.num_nodes, setting.num_ports)),
            check=setting.check or self.quick,
        )


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
