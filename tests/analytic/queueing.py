"""Formulas of queueing theory, and estimates with honest intervals to hold against them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from desim.problems.batch import BatchCluster

__all__ = ["BatchMeans", "Estimate", "erlang_c", "erlang_c_wait", "mean_excess", "pollaczek_khinchine_wait"]


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


def mean_excess(customers: int, servers: int, load: float) -> float:
    """Return how much work M/M/c is expected to get from so many customers beyond what it can do meanwhile.

    It is E[max(S - T, 0)], where S, the services over the number of servers, and T, the
    interarrival times, are sums of exponential times, so that S / (S + T) is a matter of the
    incomplete beta function. The mean service takes a second.
    """

    def larger(services: int, gaps: int) -> float:
        """Return the probability that a sum of so many services exceeds one of so many gaps."""
        return float(special.betainc(gaps, services, load / (1 + load)))

    rate = servers * load
    surplus = customers / servers * larger(customers + 1, customers)
    return surplus - customers / rate * larger(customers, customers + 1)


class BatchMeans:
    """Means over successive batches of customers, in order of service, as the simulation goes by.

    What is known about the arrivals and services serves as control variates: their means, and
    for M/M/c the excess of the work that the latest customers brought, over some numbers of
    customers. See Lavenberg and Welch, "A perspective on the use of control variables to increase
    the efficiency of Monte Carlo simulations", Management Science 27(3), 1981. Nothing is known
    about the waits.

    Parameters
    ----------
    cluster : BatchCluster
        What to listen to. Each core is a server; the mean service takes a second.
    load : float
        Arrivals a second, over the number of servers.
    batch : int
        Customers of a batch; the first batch is not used.
    lags : sequence of int
        Over how many customers the excess is taken, each at most ``batch``; for M/M/c only.
    """

    def __init__(self, cluster: BatchCluster, load: float, batch: int, lags: Sequence[int] = ()) -> None:
        self.batch = batch
        self.servers = cluster.num_cores
        self.lags = lags
        self.expected = [1 / (self.servers * load), 1.0, *(mean_excess(lag, self.servers, load) for lag in lags)]
        self.rows: list[list[float]] = []
        self.arrivals, self.waits, self.services = [0.0], [], []
        self.earlier = np.zeros(batch)
        cluster.on("start", self.note)

    def note(self, time: float, execution: Any) -> None:
        """Count a customer whose service begins."""
        job = execution.job
        self.arrivals.append(job.submission_time)
        self.waits.append(time - job.submission_time)
        self.services.append(job.run_time)
        if len(self.waits) == self.batch:
            self.close_batch()

    def close_batch(self) -> None:
        """Make a row of means: wait, delayed customers, and the control variates."""
        waits, services, gaps = np.array(self.waits), np.array(self.services), np.diff(self.arrivals)
        surplus = services / self.servers - gaps
        total = np.concatenate([[0.0], np.cumsum(np.concatenate([self.earlier, surplus]))])
        now = total[self.batch + 1 :]
        excess = [np.maximum(now - total[self.batch + 1 - lag : -lag], 0.0).mean() for lag in self.lags]
        self.rows.append([waits.mean(), (waits > 0).mean(), gaps.mean(), services.mean(), *excess])
        self.arrivals, self.waits, self.services = self.arrivals[-1:], [], []
        self.earlier = surplus

    def mean_wait(self, confidence: float = 0.999) -> Estimate:
        """Return the mean wait in the queue."""
        return self._estimate(0, confidence)

    def delayed(self, confidence: float = 0.999) -> Estimate:
        """Return the fraction of customers that have to wait."""
        return self._estimate(1, confidence)

    def _estimate(self, column: int, confidence: float) -> Estimate:
        rows: NDArray[np.float64] = np.array(self.rows[1:])
        controls = rows[:, 2:] - self.expected
        varying = np.ptp(controls, axis=0) > 0  # a constant, such as the service of M/D/1, explains nothing
        design = np.column_stack([np.ones(len(rows)), controls[:, varying]])
        coefficients, residual, _, _ = np.linalg.lstsq(design, rows[:, column], rcond=None)
        freedom = len(rows) - design.shape[1]
        spread = np.linalg.inv(design.T @ design)[0, 0] * residual[0] / freedom
        return Estimate(float(coefficients[0]), float(stats.t.ppf((1 + confidence) / 2, freedom) * np.sqrt(spread)))
