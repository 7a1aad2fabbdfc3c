"""Rules without learning that see no more than a split window: the controls of every learned agent.

Source: the window of Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from desim.envs.batch.window import SplitWindow
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation

__all__ = ["WindowRule"]


class WindowRule:
    """Starts one job after the other of those in the window that fit, and waits only if none does.

    Parameters
    ----------
    rule : {"random", "shortest", "smallest", "first"}
        Which: any, with equal probabilities; the one with the least requested time; that with the least requested
        cores; or the first in the window. Of equal jobs the first.
    head : int
        Slots at the head of the queue.
    tail : int
        Slots at its tail.

    Raises
    ------
    InvalidConfiguration
        If there is no such rule, or the window makes no sense.
    """

    def __init__(self, rule: Literal["random", "shortest", "smallest", "first"], head: int, tail: int = 0) -> None:
        if rule not in ("random", "shortest", "smallest", "first"):
            raise InvalidConfiguration(f"no rule {rule!r}; there are random, shortest, smallest, first")
        self.rule = rule
        self.window = SplitWindow(head, tail)
        self.name = f"window-{rule}-{head}-{tail}"
        self.reset({}, np.random.default_rng(0))

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Take the random numbers of a new run."""
        self._rng = rng

    def act(self, observation: BatchObservation) -> int | None:
        """Return the job to start, or None."""
        queue = observation.queue
        positions = self.window.positions(len(queue))
        positions = positions[queue.requested_cores[positions] <= observation.free_cores]
        if not len(positions):
            return None
        if self.rule == "random":
            position = positions[self._rng.integers(len(positions))]
        elif self.rule == "shortest":
            position = positions[queue.requested_time[positions].argmin()]
        elif self.rule == "smallest":
            position = positions[queue.requested_cores[positions].argmin()]
        else:
            position = positions[0]
        return int(queue.job_id[position])
