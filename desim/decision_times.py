"""Decision times of an agent, measured by a wrapper and kept apart from the records."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from numpy.random import Generator

    from desim.core import Agent

__all__ = ["DecisionTimes"]

Floats = NDArray[np.float64]


class DecisionTimes:
    """Wrapper that answers as another agent does and measures how long each decision takes.

    The times are kept here and not in the records, so that equal runs have equal records. A new run, which calls
    ``reset``, discards them; the time of ``reset`` itself is not counted.

    Parameters
    ----------
    agent : Agent
        Agent whose decisions are measured, also an attribute.
    clock : callable
        Returns the time in nanoseconds. Default: wall-clock time. ``time.process_time_ns`` counts processor time of
        this process, which other programs on the machine affect less.

    Attributes
    ----------
    name : str
        Name of the agent.

    Examples
    --------
    >>> from desim.agents.dag import HEFT
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> timed = DecisionTimes(HEFT())
    >>> result = simulate(DagCluster([Job(1, [2.0, 1.0], [(0, 1, 5.0)])], Executors([1.0])), timed)
    >>> result.info["agent"], len(timed.seconds)
    ('heft', 2)
    """

    def __init__(self, agent: Agent, clock: Callable[[], int] = perf_counter_ns) -> None:
        self.agent = agent
        self.clock = clock
        self.name: str = getattr(agent, "name", type(agent).__name__)
        self._nanoseconds = array("q")
        if hasattr(agent, "attach"):  # only then, because simulate() tests for the attribute
            self.attach = agent.attach

    def __repr__(self) -> str:
        """Return the agent's name and the number of measured decisions."""
        return f"<DecisionTimes of {self.name}: {len(self._nanoseconds)} decisions>"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Start a new run: discard the times of the last one, and reset the agent if it has that method.

        Parameters
        ----------
        info : mapping
            Description of the problem.
        rng : numpy.random.Generator
            Random stream of the agent.
        """
        self._nanoseconds = array("q")
        reset = getattr(self.agent, "reset", None)
        if reset is not None:
            reset(info, rng)

    def act(self, observation: Any) -> Any:
        """Return the agent's action, measuring the time it takes.

        Parameters
        ----------
        observation : object
            Observation for the agent.

        Returns
        -------
        object
            Action of the agent.
        """
        begin = self.clock()
        action = self.agent.act(observation)
        self._nanoseconds.append(self.clock() - begin)
        return action

    @property
    def seconds(self) -> Floats:
        """Duration of each decision in order, in seconds, as a new array."""
        return np.array(self._nanoseconds, dtype=np.float64) / 1e9

    def percentiles(self, levels: Sequence[float] = (50, 90, 98, 99)) -> dict[float, float]:
        """Return percentiles of the decision times.

        Parameters
        ----------
        levels : sequence of float
            Percentile levels from 0 to 100.

        Returns
        -------
        dict of float to float
            Times in seconds by level, interpolated linearly; NaN if there was no decision.

        Raises
        ------
        InvalidConfiguration
            If a level is out of range.
        """
        wrong = [level for level in levels if not 0 <= level <= 100]
        if wrong:
            raise InvalidConfiguration(f"level: got {wrong[0]!r}, expected a number from 0 to 100")
        times = self.seconds
        values = np.percentile(times, levels) if len(times) else np.full(len(levels), np.nan)
        return dict(zip(levels, values.tolist(), strict=True))

    def cdf(self) -> tuple[Floats, Floats]:
        """Return the empirical distribution function, as in Fig. 7d and 8d of LACHESIS.

        Returns
        -------
        seconds, fraction : array of float, shape (num_decisions,)
            Times in ascending order, and the fraction of decisions that took at most as long.
        """
        times = np.sort(self.seconds)
        return times, np.arange(1, len(times) + 1) / max(len(times), 1)
