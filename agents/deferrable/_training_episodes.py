"""Episodes for training and validation: deferrable jobs of several workloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from numpy.random import Generator

from desim import plugins
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster

__all__ = ["DeferrableEpisodes"]


@cache
def _workload() -> Callable[..., Any]:
    """Return what draws jobs and capacity; to look for it takes longer than to draw them."""
    found: Callable[..., Any] = plugins.episode_workload("deferrable")
    return found


@dataclass(frozen=True)
class DeferrableEpisodes:
    """Draws the cluster of an episode: workload and setting at random.

    Parameters
    ----------
    workloads : tuple of str
        Names that the episode workload of the problem knows, such as ``"default"``, ``"fluctuating"``, ``"core-2"``.
    real_time : tuple of bool
        Whether jobs are shown at their earliest start only and must be started then.
    delay_weight, violation_weight : float
        Of the objective, see :class:`~desim.problems.deferrable.DeferrableCluster`.

    Raises
    ------
    InvalidConfiguration
        If there is nothing to draw from.
    """

    workloads: tuple[str, ...] = ("default",)
    real_time: tuple[bool, ...] = (False,)
    delay_weight: float = 2.0
    violation_weight: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        for name in ("workloads", "real_time"):
            if not getattr(self, name):
                raise InvalidConfiguration(f"{name} is empty: there is nothing to draw from")

    def __call__(self, rng: Generator) -> DeferrableCluster:
        """Return the cluster of an episode.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        """
        make = _workload()
        workload = self.workloads[int(rng.integers(len(self.workloads)))]
        real_time = self.real_time[int(rng.integers(len(self.real_time)))]
        scenario = make(rng, settings=workload)
        return DeferrableCluster(
            scenario.jobs,
            scenario.capacity,
            num_slots=scenario.num_slots,
            delay_weight=self.delay_weight,
            violation_weight=self.violation_weight,
            real_time=real_time,
        )
