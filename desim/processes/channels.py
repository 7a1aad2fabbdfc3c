"""Data on links that several flows share max-min fairly: a SimPy process that owns the flows under way.

Rates change only when a flow begins or ends, so that nothing happens in between and no time is cut into steps. They are
max-min fair: no flow could go faster without slowing one down that is no faster (D. Bertsekas and R. Gallager, Data
Networks, 2nd edition, 1992, section 6.5.2).
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

    All rates grow together; a flow stops at its limit or when one of its links is full.

    Parameters
    ----------
    routes : sequence of sequence of int
        The links that each flow takes, each link once.
    limits : sequence of float
        The most that each flow can make use of, in units of data per second, above 0; may be infinite.
    bandwidths : sequence of float
        Of each link, in units of data per second, above 0; may be infinite.

    Returns
    -------
    list of float
        The rate of each flow, in units of data per second, infinite if nothing limits it.

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
    """Return the link with the least bandwidth left for each flow that can still grow, and that bandwidth."""
    full, least = -1, math.inf
    for link, count in counts.items():
        if count and left[link] / count < least:
            full, least = link, left[link] / count
    return full, least


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


class SharedChannels:
    """Links that flows of data share.

    A flow waits for its latency, takes no bandwidth while it does, and then sends at a rate that the flows on its
    links share max-min fairly, see :func:`fair_rates`. What happens at one instant happens in the order in which the
    flows were started.

    Parameters
    ----------
    env : simpy.Environment
        Where they live.
    bandwidths : sequence of float
        Units of data per second of each link, above 0; may be infinite.

    Attributes
    ----------
    flows : dict of Flow to None
        The flows under way, in order of their start.

    Raises
    ------
    InvalidConfiguration
        If a bandwidth is not above 0.

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
                raise InvalidConfiguration(f"the bandwidth of link {link} is {bandwidth!r}, want a number above 0")
        self.flows: dict[Flow, None] = {}
        self._env = env
        self._bandwidths = [float(bandwidth) for bandwidth in bandwidths]
        self._users: list[dict[Flow, None]] = [{} for _ in self._bandwidths]
        self._changed: dict[int, None] = {}  # links, a set in order
        self._num_started = 0
        self._pause: simpy.Event | None = None
        self._told = True  # it looks by itself when it comes to life
        self._process = start_process(env, self)

    @property
    def next_event(self) -> simpy.Event:
        """What their process waits for."""
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
        """Send data over links from now on.

        Parameters
        ----------
        route : sequence of int
            The links that they take, each once; none for a way that is not shared.
        size : float
            Units of data, at least 0.
        arrived : callable
            Called with the flow when all has arrived, at the time ``flow.due``.
        seconds_per_unit : float
            Seconds that a unit takes at least: 1 / the speed of the sender.
        latency : float
            Seconds before the first unit sets out.

        Returns
        -------
        Flow
            What is under way.

        Raises
        ------
        InvalidConfiguration
            If the route names a link twice or one that there is not, or a number is out of range.
        """
        if len(set(route)) < len(route) or not all(0 <= link < len(self._bandwidths) for link in route):
            raise InvalidConfiguration(
                f"the route is {tuple(route)!r}, want different links of {len(self._bandwidths)}"
            )
        if not all(0 <= value < math.inf for value in (size, latency, seconds_per_unit)):
            raise InvalidConfiguration(
                f"a flow of size {size!r}, latency {latency!r} and {seconds_per_unit!r} seconds a unit, want finite "
                "numbers of at least 0"
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
        """Stop a flow; it will not arrive.

        Parameters
        ----------
        flow : Flow
            One that is under way; nothing happens otherwise.
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
        """Return their process, from the beginning."""
        return self._live(waits=False)

    def resume(self) -> Generator[simpy.Event, None, None]:
        """Return their process from where it stands."""
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
        """Let happen what is due; return what the process waits for then."""
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
        """Let the flows set out whose latency has passed, and those arrive that are through."""
        now = self._env.now
        due = [flow for flow in self.flows if flow.due <= now]
        for flow in due:
            if flow not in self.flows:
                continue  # another that has arrived made it superfluous
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
        """Share the links anew where flows have begun or ended, and where that matters in turn."""
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
