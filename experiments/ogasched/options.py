"""What the experiments of this paper take on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from desim.experiments import options
from desim.experiments.ogasched.simulating import Setting

__all__ = ["Options"]

#: With --quick: what T and the number of nodes are divided by.
QUICK_SLOTS, QUICK_NODES = 50, 2


@dataclass(frozen=True)
class Options(options.Options):
    """What all experiments of this paper take; with ``quick`` T is divided by 50, the number of nodes by 2.

    Attributes
    ----------
    divide_slots : int
        What T is divided by, for smaller trials.
    divide_nodes : int
        What the number of nodes is divided by, for smaller trials.
    """

    family: ClassVar[str] = "ogasched"

    divide_slots: int = 1
    divide_nodes: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        self.require_positive("seeds", "jobs", "divide_slots", "divide_nodes")

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
