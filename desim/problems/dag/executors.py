"""The executors of a cluster: how fast they compute, and how fast data move between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.dag._checks import first_wrong, names_of, numbers_of

__all__ = ["Executors"]

Floats = NDArray[np.float64]


class Executors:
    """Executors with their speeds and the channels between each pair of them; they do not change.

    Moving ``size`` units of data from executor k to another executor l takes
    ``latencies[k, l] + size / transfer_speeds[k, l]`` seconds, and no time within one executor.

    Parameters
    ----------
    speeds : array_like of shape (num_executors,)
        Work per second, v_k, above 0. A node of work w runs for w / v_k seconds, unless its job says otherwise.
    transfer_speed : float or array_like of shape (num_executors, num_executors)
        Units of data per second from each executor to each other, c_kl, above 0; infinite for no delay. The
        diagonal is not looked at.
    latency : float or array_like of shape (num_executors, num_executors)
        Seconds before the first unit of data arrives, at least 0.
    names : sequence of str, optional
        ``executor0``, ``executor1``, ... if left out.

    Attributes
    ----------
    speeds : numpy.ndarray of shape (num_executors,)
        As given, read-only.
    transfer_speeds, latencies : numpy.ndarray of shape (num_executors, num_executors)
        As given, read-only; the diagonals are infinite and 0.
    names : tuple of str
        Names.

    Raises
    ------
    InvalidConfiguration
        If a shape does not fit, or a value is out of range; the message names the executor or the pair.

    Examples
    --------
    >>> executors = Executors([1.0, 2.0], transfer_speed=10.0)
    >>> executors.num_executors, float(executors.transfer_seconds(5.0)[0, 1])
    (2, 0.5)
    """

    def __init__(
        self,
        speeds: ArrayLike,
        transfer_speed: ArrayLike = np.inf,
        latency: ArrayLike = 0.0,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        self.speeds = numbers_of("speeds", speeds, InvalidConfiguration)
        if self.speeds.ndim != 1 or not len(self.speeds):
            raise InvalidConfiguration(f"speeds has shape {self.speeds.shape}, want one number for each executor")
        self.names = names_of("executor", names, len(self.speeds), InvalidConfiguration)
        wrong = first_wrong(~((self.speeds > 0) & (self.speeds < np.inf)))
        if wrong is not None:
            raise InvalidConfiguration(
                f"the speed of {self.names[wrong[0]]} is {self.speeds[wrong].item()!r}, want a finite number above 0"
            )
        self.transfer_speeds = self._between_pairs("transfer_speed", transfer_speed, np.inf)
        self.latencies = self._between_pairs("latency", latency, 0.0)
        self._check_pairs("transfer speed", self.transfer_speeds, ~(self.transfer_speeds > 0), "a number above 0")
        bad = ~((self.latencies >= 0) & (self.latencies < np.inf))
        self._check_pairs("latency", self.latencies, bad, "a finite time of at least 0")

    def _between_pairs(self, what: str, values: ArrayLike, diagonal: float) -> Floats:
        given = numbers_of(what, values, InvalidConfiguration)
        shape = (self.num_executors, self.num_executors)
        if given.shape not in ((), shape):
            raise InvalidConfiguration(f"{what} has shape {given.shape}, want one number or shape {shape}")
        table = np.array(np.broadcast_to(given, shape))
        np.fill_diagonal(table, diagonal)
        table.flags.writeable = False
        return table

    def _check_pairs(self, what: str, table: Floats, bad: NDArray[np.bool_], want: str) -> None:
        wrong = first_wrong(bad)
        if wrong is not None:
            source, destination = (self.names[index] for index in wrong)
            raise InvalidConfiguration(
                f"the {what} from {source} to {destination} is {table[wrong].item()!r}, want {want}"
            )

    def __repr__(self) -> str:
        """Say how many there are and how fast."""
        return f"Executors({self.num_executors}, speeds {self.speeds.min():g} to {self.speeds.max():g})"

    @property
    def num_executors(self) -> int:
        """Number of executors, M."""
        return len(self.speeds)

    @cached_property
    def seconds_per_unit(self) -> Floats:
        """Seconds that a unit of data takes from each executor to each other, 1 / c_kl; the diagonal is 0."""
        table = 1.0 / self.transfer_speeds
        table.flags.writeable = False
        return table

    def transfer_seconds(self, size: float) -> Floats:
        """Return how long data move between all pairs.

        Parameters
        ----------
        size : float
            Units of data.

        Returns
        -------
        numpy.ndarray of shape (num_executors, num_executors)
            Seconds from each executor (row) to each other (column), 0 on the diagonal.
        """
        table: Floats = self.latencies + size * self.seconds_per_unit
        return table

    @cached_property
    def mean_seconds_per_unit(self) -> float:
        """Mean over all pairs of different executors of the seconds that a unit of data takes, without latency."""
        return self._mean_between(self.seconds_per_unit)

    @cached_property
    def mean_latency(self) -> float:
        """Mean latency over all pairs of different executors, in seconds."""
        return self._mean_between(self.latencies)

    def _mean_between(self, table: Floats) -> float:
        count = self.num_executors
        if count == 1:
            return 0.0
        apart = table[~np.eye(count, dtype=bool)]
        first = apart[0].item()
        # Of equal numbers the mean is that number; summing them would round.
        return float(first) if (apart == first).all() else float(apart.mean())

    def describe(self) -> dict[str, Any]:
        """Return what they are as plain values; tables of pairs as one number where all pairs are equal."""
        return {
            "num_executors": self.num_executors,
            "speeds": self.speeds.tolist(),
            "transfer_speed": _plain(self.transfer_speeds),
            "latency": _plain(self.latencies),
            "executors": list(self.names),
        }


def _plain(table: Floats) -> float | list[list[float | None]] | None:
    """Return the value of all pairs, or the whole table; None for what is infinite, as JSON has no such number."""
    apart = table[~np.eye(len(table), dtype=bool)]
    if not len(apart) or (apart == np.inf).all():
        return None
    if (apart == apart[0]).all():
        return float(apart[0])
    return [[value if value < np.inf else None for value in row] for row in table.tolist()]
