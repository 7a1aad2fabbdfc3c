"""Data transfers on links that several flows share max-min fairly: a SimPy process that manages the flows.

Rates change only when a flow starts or ends, so there are no events in between and no time steps. The rates are max-min
fair: no flow could be faster without slowing down one that is not faster (D. Bertsekas and R. Gallager, Data Networks,
2nd edition, 1992, section 6.5.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence

import simpy

from desim.core import RESUMED, at, start_process
from desim.exceptions import InvalidConfiguration

__all__ = ["Flow", "SharedChannels", "fair_rates"]


def fair_rates(routes: Sequence[Sequence[int]], limits: Sequence[float], bandwidths: Sequence[float]) -> list[float]:
    """Return the max-min fair rates of flows, by progressive filling.

    All rates grow together; a flow stops growing at its limit or when one of its links is full.

    Parameters
    ----------
    routes : sequence of sequence of int
        Links that each flow uses, without duplicates.
    limits : sequence of float
        Maximum rate of each flow, in units of data per second, > 0; may be infinite.
    bandwidths : sequence of float
        Bandwidth of each link, in units of data per second, > 0; may be infinite.

    Returns
    -------
    list of float
        Rate of each flow, in units of data per second; infinite if nothing limits it.

    Examples
    --------
    >>> fair_rates([[0], [0, 1], [1]], [math.inf] * 3, [10.0, 4.0])
    [8.0, 2.0, 2.0]
    """
    users: dict[int, list[int]] = {}
    for flow, route in enumerate(routes):
        for link in route:
            if bandwidths[link] < math.inf:
                users.setdefault(link, []).append(flow)
    left = {link: bandwidths[link] for link in users}
    counts = {link: len(flows) for link, flows in users.items()}
    by_limit = sorted(range(len(routes)), key=limits.__getitem__)
    rates: list[float | None] = [None] * len(routes)
    place = 0
    while True:
        while place < len(by_limit) and rates[by_limit[place]] is not None:
            place += 1
        if place == len(by_limit):
            return [rate for rate in rates if rate is not None]
        full, share = _fullest(left, counts)
        stopped = []
        while place < len(by_limit) and limits[by_limit[place]] <= share:
            stopped.append(by_limit[place])
            place += 1
        stopped = [flow for flow in stopped if rates[flow] is None] or [
            flow for flow in users[full] if rates[flow] is None
        ]
        for flow in stopped:
            rate = min(limits[flow], share)
            rates[flow] = rate
            for link in routes[flow]:
                if link in left:
                    left[link] -= rate
                    counts[link] -= 1


def _fullest(left: dict[int, float], counts: dict[int, int]) -> tuple[int, float]:
    """Return the link with the least remaining bandwidth per flow that can still grow, and that bandwidth."""
    full, least = -1, math.inf
    for link, count in counts.items():
        if count and left[link] / count < least:
            full, least = link, left[link] / count
    return full, least


class Flow:
    """Data transfer in progress; a live object that must not be changed.

    Parameters
    ----------
    number : int
        Number of flows started earlier.
    route : sequence of int
        Links that the flow uses.
    size : float
        Size in units of data.
    arrived : callable
        Called with the flow when all data has arrived.
    seconds_per_unit : float
        Minimum time per unit in seconds, whatever the bandwidth of the links.
    latency : float
        Seconds before the first unit is sent.
    begin : float
        Start time in seconds.

    Attributes
    ----------
    rate : float
        Current rate in units per second; 0 until the latency has passed.
    left : float
        Units left when the rate last changed.
    due : float
        Time of the flow's next event at the current rates, in seconds: the end of its latency, or its arrival.
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
        """Return the size, start time and route as text."""
        return f"<flow {self.number}: {self.size} units since {self.begin} s over links {self.route}>"

    @property
    def limit(self) -> float:
        """Maximum rate of the flow, in units per second."""
        return 1.0 / self.seconds_per_unit if self.seconds_per_unit else math.inf

    def change_rate(self, rate: float, now: float) -> None:
        """Continue at another rate.

        Parameters
        ----------
        rate : float
            New rate in units per second.
        now : float
            Current time in seconds.
        """
        if rate == self.rate:
            return
        if self.rate:
            if now > self._since:
                self.left = max(0.0, self.left - self.rate * (now - self._since))
            self._since = now
        self.rate = rate
        if self.left == self.size and rate >= self.limit:
            # Exactly the time over an unshared channel, to the last bit, however often the rate has changed.
            self.due = self.begin + (self.size * self.seconds_per_unit + self.latency)
        else:
            self.due = self._since + self.left / rate


class SharedChannels:
    """Links shared by data flows.

    A flow first waits for its latency, without using bandwidth. Then it sends at a rate that the flows on its links
    share max-min fairly, see :func:`fair_rates`. Events at the same instant happen in the order in which the flows were
    started.

    Parameters
    ----------
    env : simpy.Environment
        Environment of the process.
    bandwidths : sequence of float
        Bandwidth of each link, in units of data per second, > 0; may be infinite.

    Attributes
    ----------
    flows : dict of Flow to None
        Flows in progress, in order of their start.

    Raises
    ------
    InvalidConfiguration
        If a bandwidth is not > 0.

    Examples
    --------
    >>> env = simpy.Environment()
    >>> channels = SharedChannels(env, [2.0])
    >>> for size in (4.0, 6.0):
    ...     flow = channels.start([0], size, lambda flow: print(flow.size, "units arrived at", flow.due))
    >>> env.run()
    4.0 units arrived at 4.0
    6.0 units arrived at 5.0
    """

    def __init__(self, env: simpy.Environment, bandwidths: Sequence[float]) -> None:
        for link, bandwidth in enumerate(bandwidths):
            if not bandwidth > 0:
                raise InvalidConfiguration(f"bandwidth of link {link}: got {bandwidth!r}, expected a number > 0")
        self.flows: dict[Flow, None] = {}
        self._env = env
        self._bandwidths = [float(bandwidth) for bandwidth in bandwidths]
        self._users: list[dict[Flow, None]] = [{} for _ in self._bandwidths]
        self._changed: dict[int, None] = {}  # links, as an ordered set
        self._num_started = 0
        self._pause: simpy.Event | None = None
        self._told = True  # no wake-up is needed before the process first runs
        self._process = start_process(env, self)

    @property
    def next_event(self) -> simpy.Event:
        """Event that the process waits for."""
        event: simpy.Event = self._process.target
        return event

    def start(
        self,
        route: Sequence[int],
        size: float,
        arrived: Callable[[Flow], None],
        *,
        seconds_per_unit: float = 0.0,
        latency: float = 0.0,
    ) -> Flow:
        """Start sending data over links now.

        Parameters
        ----------
        route : sequence of int
            Links to use, without duplicates; empty for an unshared connection.
        size : float
            Size in units of data, at least 0.
        arrived : callable
            Called with the flow when all data has arrived, at the time ``flow.due``.
        seconds_per_unit : float
            Minimum time per unit in seconds: 1 / the speed of the sender.
        latency : float
            Seconds before the first unit is sent.

        Returns
        -------
        Flow
            The flow in progress.

        Raises
        ------
        InvalidConfiguration
            If the route contains a link twice or an unknown link, or a number is out of range.
        """
        if len(set(route)) < len(route) or not all(0 <= link < len(self._bandwidths) for link in route):
            raise InvalidConfiguration(
                f"route: got {tuple(route)!r}, expected different links of {len(self._bandwidths)}"
            )
        if not all(0 <= value < math.inf for value in (size, latency, seconds_per_unit)):
            raise InvalidConfiguration(
                f"flow: got size {size!r}, latency {latency!r} and {seconds_per_unit!r} seconds per unit, expected "
                "finite numbers >= 0"
            )
        flow = Flow(
            self._num_started,
            route,
            size,
            arrived,
            seconds_per_unit=seconds_per_unit,
            latency=latency,
            begin=self._env.now,
        )
        self._num_started += 1
        self.flows[flow] = None
        self._look_again()
        return flow

    def cancel(self, flow: Flow) -> None:
        """Cancel a flow, which then never arrives.

        Parameters
        ----------
        flow : Flow
            The flow; ignored if it is no longer in progress.
        """
        if flow in self.flows:
            self._remove(flow)
            self._look_again()

    def _remove(self, flow: Flow) -> None:
        del self.flows[flow]
        if flow.is_sending:
            for link in flow.route:
                del self._users[link][flow]
                self._changed[link] = None

    def run(self) -> Generator[simpy.Event, None, None]:
        """Return the process from its beginning."""
        return self._live(waits=False)

    def resume(self) -> Generator[simpy.Event, None, None]:
        """Return the process from the point where it waits now."""
        return self._live(waits=True)

    def _live(self, *, waits: bool) -> Generator[simpy.Event, None, None]:
        while True:
            try:
                if waits:
                    waits = False
                    yield RESUMED
                else:
                    yield self._go_on()
                self._told = True
            except simpy.Interrupt:
                pass

    def _go_on(self) -> simpy.Event:
        """Process everything that is due; return the event that the process then waits for."""
        env = self._env
        due = -math.inf
        while due <= env.now:
            self._let_happen()
            self._share()
            due = min((flow.due for flow in self.flows), default=math.inf)
        self._told = False
        if due < math.inf:
            return at(env, due)
        self._pause = simpy.Event(env)
        return self._pause

    def _look_again(self) -> None:
        """Wake the process, unless it is awake or about to be."""
        if self._told:
            return
        self._told = True
        if self._pause is not None:
            pause, self._pause = self._pause, None
            pause.succeed()
        else:
            self._process.interrupt()

    def _let_happen(self) -> None:
        """Start sending for flows whose latency has passed, and deliver flows that are complete."""
        now = self._env.now
        due = [flow for flow in self.flows if flow.due <= now]
        for flow in due:
            if flow not in self.flows:
                continue  # cancelled by the arrival of another flow
            if flow.is_sending or not flow.size:
                self._remove(flow)
                flow.arrived(flow)
            else:
                flow.is_sending = True
                for link in flow.route:
                    self._users[link][flow] = None
                    self._changed[link] = None
                if not flow.route:
                    flow.change_rate(flow.limit, now)

    def _share(self) -> None:
        """Recompute the rates on links where flows have started or ended, and on links affected by that."""
        if not self._changed:
            return
        todo = list(self._changed)
        links = self._changed
        self._changed = {}
        found: dict[Flow, None] = {}
        while todo:
            for flow in self._users[todo.pop()]:
                if flow not in found:
                    found[flow] = None
                    for link in flow.route:
                        if link not in links:
                            links[link] = None
                            todo.append(link)
        flows = sorted(found, key=lambda flow: flow.number)
        rates = fair_rates([flow.route for flow in flows], [flow.limit for flow in flows], self._bandwidths)
        now = self._env.now
        for flow, rate in zip(flows, rates, strict=True):
            flow.change_rate(rate, now)
