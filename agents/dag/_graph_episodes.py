"""Episodes for training and validation: queries like those of TPC-H on clusters of several kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from desim import plugins
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster

__all__ = ["GraphEpisodes"]


@dataclass(frozen=True)
class GraphEpisodes:
    """Draws the cluster of an episode: each of the settings at random.

    Parameters
    ----------
    num_jobs : tuple of two ints
        Least and most jobs.
    num_executors : tuple of int
        Numbers of executors; their speeds are drawn as well.
    ccr : tuple of float
        Communication-to-computation ratios.
    intervals : tuple of float
        Mean seconds between jobs; 0 for all at time 0.
    plan_ahead : bool
        Nodes may be assigned as soon as their parents are assigned.

    Raises
    ------
    InvalidConfiguration
        If there is nothing to draw from.
    """

    num_jobs: tuple[int, int] = (15, 30)
    num_executors: tuple[int, ...] = (10,)
    ccr: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0)
    intervals: tuple[float, ...] = (0.0, 45.0)
    plan_ahead: bool = False

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if not 1 <= self.num_jobs[0] <= self.num_jobs[1]:
            raise InvalidConfiguration(f"num_jobs is {self.num_jobs!r}, want two numbers from 1 on, in order")
        for name in ("num_executors", "ccr", "intervals"):
            if not getattr(self, name):
                raise InvalidConfiguration(f"{name} is empty: there is nothing to draw from")

    def __call__(self, rng: Generator) -> DagCluster:
        """Return the cluster of an episode.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        """
        make: Callable[..., Any] = plugins.episode_workload("dag")
        low, high = self.num_jobs
        jobs, executors = make(
            rng,
            num_jobs=int(rng.integers(low, high + 1)),
            num_executors=int(rng.choice(np.array(self.num_executors))),
            ccr=float(rng.choice(np.array(self.ccr))),
            mean_interval=float(rng.choice(np.array(self.intervals))),
        )
        return DagCluster(jobs, executors, plan_ahead=self.plan_ahead)
