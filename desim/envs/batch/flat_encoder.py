"""The observation of the DBF paper: remaining times of all cores, and three numbers a job."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np

from desim.envs.base import ACTION_MASK, Arrays
from desim.envs.batch.window import SplitWindow, WindowEncoder
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation

__all__ = ["FlatEncoder"]


class FlatEncoder(WindowEncoder):
    """Remaining times of the cores, and cores, requested time and waiting time of each job in the window.

    Source: Wang, Harwood and Rodriguez, HPCC 2022, section III-A. Its formula has the time that a core has been busy,
    its text the time until it is free; this is the latter, by requested times. All are divided by constants
    and cut at 1.

    Parameters
    ----------
    window : SplitWindow
        Which jobs are seen.
    num_cores : int
        Cores of the cluster.
    longest_time : float
        Requested time that stands for 1, in seconds; by default the longest run time of the paper's workload.
    longest_wait : float
        Waiting time that stands for 1, in seconds.
    order : {"by_core", "sorted"}
        Whether the remaining times stand in the order of the cores, or ascending, which is cheaper and the same for
        all clusters that differ in the numbers of their cores only.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    def __init__(
        self,
        window: SplitWindow,
        num_cores: int,
        *,
        longest_time: float = 124_707.0,
        longest_wait: float = 500_000.0,
        order: Literal["by_core", "sorted"] = "by_core",
    ) -> None:
        if not (num_cores >= 1 and longest_time > 0 and longest_wait > 0):
            given = f"num_cores {num_cores!r}, longest_time {longest_time!r}, longest_wait {longest_wait!r}"
            raise InvalidConfiguration(f"{given}: want values above 0")
        if order not in ("by_core", "sorted"):
            raise InvalidConfiguration(f"order is {order!r}, want 'by_core' or 'sorted'")
        self.num_cores = num_cores
        self.longest_time = longest_time
        self.longest_wait = longest_wait
        self.order = order
        box = gymnasium.spaces.Box
        shapes = {"cores": (num_cores,), "jobs": (window.size, 3)}
        spaces: dict[str, gymnasium.Space[Any]] = {
            name: box(0.0, 1.0, shape, np.float32) for name, shape in shapes.items()
        }
        super().__init__(window, spaces, window.size)

    def encode(self, observation: BatchObservation) -> Arrays:
        """Return ``cores``, shape (N,), ``jobs``, shape (M, 3), and the mask, shape (M + 1,).

        Parameters
        ----------
        observation : BatchObservation
            A decision of a cluster of N cores.

        Returns
        -------
        dict of str to numpy.ndarray
            Empty slots are 0.

        Raises
        ------
        InvalidConfiguration
            If the cluster has another number of cores.
        """
        if observation.num_cores != self.num_cores:
            raise InvalidConfiguration(f"the cluster has {observation.num_cores} cores, the encoder {self.num_cores}")
        queue = observation.queue
        positions = self.window.positions(len(queue))
        cores = queue.requested_cores[positions]
        jobs = np.zeros((self.window.size, 3), np.float32)
        shown = jobs[: len(positions)]
        shown[:, 0] = cores / self.num_cores
        shown[:, 1] = queue.requested_time[positions] / self.longest_time
        shown[:, 2] = (observation.time - queue.submission_time[positions]) / self.longest_wait
        np.minimum(shown, 1.0, out=shown)
        mask = self.mask(cores <= observation.free_cores)
        return {"cores": self._cores(observation), "jobs": jobs, ACTION_MASK: mask}

    def _cores(self, observation: BatchObservation) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """Return the remaining times of all cores, scaled, shape (N,)."""
        if self.order == "by_core":
            remaining = observation.remaining_times()
        else:
            running = observation.running
            busy = np.repeat(running.expected_end - observation.time, running.requested_cores)
            remaining = np.full(self.num_cores, np.inf)  # those that are down
            remaining[: observation.free_cores] = 0.0
            remaining[observation.free_cores : observation.free_cores + len(busy)] = np.maximum(busy, 0.0)
        return np.minimum(remaining / self.longest_time, 1.0).astype(np.float32)
