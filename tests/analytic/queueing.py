"""Formulas of queueing theory, and estimates with honest intervals to hold against them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from desim.problems.batch import BatchCluster

__all__ = ["BatchMeans", "Estimate", "erlang_c", "erlang_c_wait", "pollaczek_khinchine_wait"]


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that a customer of M/M/c has to wait; ``offered`` is arrival rate x mean service."""
    blocking = 1.0  # Erlang's B, by its recursion over the number of servers
    for count in range(1, servers + 1):
        blocking = offered * blocking / (count + offered * blocking)
    return blocking / (1 - offered / servers * (1 - blocking))


def erlang_c_wait(servers: int, load: float, mean_service: float = 1.0) -> float:
    """Return the mean wait in the queue of M/M/c."""
    return erlang_c(servers, servers * load) * mean_service / (servers * (1 - load))


def pollaczek_khinchine_wait(load: float, mean_service: float, squared_coefficient_of_variation: float) -> float:
    """Return the mean wait in the queue of M/G/1."""
    return load / (1 - load) * mean_service * (1 + squared_coefficient_of_variation) / 2


class Estimate(NamedTuple):
    """A mean with the half width of its confidence interval."""

    mean: float
    half_width: float

    def covers(self, value: float) -> bool:
        """Tell whether a value lies in the interval."""
        return abs(self.mean - value) <= self.half_width


class BatchMeans:
    """Means over successive batches of customers, in order of service, as the simulation goes by.

    The known means of the interarrival and service times serve as control variates: Lavenberg
    and Welch, "A perspective on the use of control variables to increase the efficiency of Monte
    Carlo simulations", Management Science 27(3), 1981. Nothing is known about the waits.

    Parameters
    ----------
    cluster : BatchCluster
        What to listen to.
    batch : int
        Customers of a batch; the first ``warm_up`` batches are not used.
    mean_interarrival, mean_service : float
        In seconds.
    """

    def __init__(
        self, cluster: BatchCluster, batch: int, mean_interarrival: float, mean_service: float, warm_up: int = 1
    ) -> None:
        self.batch = batch
        self.warm_up = warm_up
        self.controls = np.array([mean_interarrival, mean_service])
        self.rows: list[tuple[float, float, float, float]] = []
        self.left, self.wait, self.waiters, self.service, self.since = batch, 0.0, 0, 0.0, 0.0
        cluster.on("start", self.note)

    def note(self, time: float, execution: Any) -> None:
        """Count a customer whose service begins."""
        _, arrival, _, _, service, _ = execution.job
        self.service += service
        if time > arrival:
            self.wait += time - arrival
            self.waiters += 1
        self.left -= 1
        if not self.left:
            size = self.batch
            self.rows.append((self.wait / size, self.waiters / size, (arrival - self.since) / size, self.service / size))
            self.left, self.wait, self.waiters, self.service, self.since = size, 0.0, 0, 0.0, arrival

    def mean_wait(self, confidence: float = 0.999) -> Estimate:
        """Return the mean wait in the queue."""
        return self._estimate(0, confidence)

    def delayed(self, confidence: float = 0.999) -> Estimate:
        """Return the fraction of customers that have to wait."""
        return self._estimate(1, confidence)

    def _estimate(self, column: int, confidence: float) -> Estimate:
        rows: NDArray[np.float64] = np.array(self.rows[self.warm_up :])
        controls = rows[:, 2:] - self.controls
        varying = np.ptp(controls, axis=0) > 0  # a constant, such as the service of M/D/1, explains nothing
        design = np.column_stack([np.ones(len(rows)), controls[:, varying]])
        coefficients, residual, _, _ = np.linalg.lstsq(design, rows[:, column], rcond=None)
        freedom = len(rows) - design.shape[1]
        spread = np.linalg.inv(design.T @ design)[0, 0] * residual[0] / freedom
        return Estimate(float(coefficients[0]), float(stats.t.ppf((1 + confidence) / 2, freedom) * np.sqrt(spread)))
