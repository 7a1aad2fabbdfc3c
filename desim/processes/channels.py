"""Data on links that several flows share: a SimPy process that owns the flows under way.

Rates change only when a flow begins or ends, so that nothing happens in between and no time is cut into steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence

import simpy

from desim.core import at
from desim.exceptions import InvalidConfiguration
from desim.processes.fairness import fair_rates
from desim.processes.flows import Flow

__all__ = ["SharedChannels"]


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
        self._process = env.process(self._live())

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

    def _live(self) -> Generator[simpy.Event, None, None]:
        env = self._env
        while True:
            try:
                self._let_happen()
                self._share()
                due = min((flow.due for flow in self.flows), default=math.inf)
                if due <= env.now:
                    continue
                self._told = False
                if due < math.inf:
                    yield at(env, due)
                else:
                    self._pause = simpy.Event(env)
                    yield self._pause
                self._told = True
            except simpy.Interrupt:
                pass

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
