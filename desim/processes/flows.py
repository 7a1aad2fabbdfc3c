"""Data on their way over shared links."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

__all__ = ["Flow"]


class Flow:
    """Data on their way; live, do not change it.

    Parameters
    ----------
    number : int
        How many flows there were before.
    route : sequence of int
        The links that it takes.
    size : float
        Units of data.
    arrived : callable
        Called with the flow when all is there.
    seconds_per_unit : float
        Seconds that a unit takes at least, whatever the links could carry.
    latency : float
        Seconds before the first unit sets out.
    begin : float
        When it began, in seconds.

    Attributes
    ----------
    rate : float
        Units per second now; 0 until the latency has passed.
    left : float
        Units that had not passed when the rate last changed.
    due : float
        When the next thing happens to it as things stand, the end of its latency or its arrival, in seconds.
    is_sending : bool
        Whether the latency has passed.
    """

    def __init__(
        self,
        number: int,
        route: Sequence[int],
        size: float,
        arrived: Callable[[Flow], None],
        *,
        seconds_per_unit: float,
        latency: float,
        begin: float,
    ) -> None:
        self.number = number
        self.route = tuple(route)
        self.size = size
        self.seconds_per_unit = seconds_per_unit
        self.latency = latency
        self.begin = begin
        self.arrived = arrived
        self.rate = 0.0
        self.left = size
        self.due = self._since = begin + latency
        self.is_sending = False

    def __repr__(self) -> str:
        """Say how much it carries, since when and where."""
        return f"<flow {self.number}: {self.size} units since {self.begin} s over links {self.route}>"

    @property
    def limit(self) -> float:
        """The highest rate that it can make use of, in units per second."""
        return 1.0 / self.seconds_per_unit if self.seconds_per_unit else math.inf

    def change_rate(self, rate: float, now: float) -> None:
        """Go on at another rate from now on.

        Parameters
        ----------
        rate : float
            Units per second.
        now : float
            Seconds.
        """
        if rate == self.rate:
            return
        if self.rate:
            if now > self._since:
                self.left = max(0.0, self.left - self.rate * (now - self._since))
            self._since = now
        self.rate = rate
        if self.left == self.size and rate >= self.limit:
            # To the last bit what a channel of its own would take, however that is summed up.
            self.due = self.begin + (self.size * self.seconds_per_unit + self.latency)
        else:
            self.due = self._since + self.left / rate
