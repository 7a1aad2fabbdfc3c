"""Priority rules for deferrable jobs: each starts the jobs that fit, in its own order.

A priority rule scores every job whose start window is open. The smallest score comes first; ties go to the job that
became known earlier. Jobs are started in this order if they fit the free capacity. A job that does not fit is skipped
or, with ``skip=False``, ends the slot, as the OSDEC paper (Dong et al., section 4.1.2) decodes the scores of its
agents.

No rule starts jobs beyond the capacity of the present slot. With a forecast, no rule starts jobs that would exceed the
forecast capacity of later slots either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice, check_float
from desim.problems.deferrable import DeferrableObservation, JobSet
from desim.problems.deferrable.observation import free_ahead
from desim.reprs import NamedRepr

if TYPE_CHECKING:
    from desim.agents.deferrable.forecasts import Forecast

__all__ = [
    "FIFO",
    "SJF",
    "EarliestDeadline",
    "LargestRevenue",
    "LeastSlack",
    "Priority",
    "RandomOrder",
    "Tetris",
    "first_fitting",
]

Floats = NDArray[np.float64]


def first_fitting(jobs: JobSet, order: NDArray[np.int64], room: Floats, *, skip: bool) -> list[int]:
    """Return the positions of the jobs that fit together, tried in the given order.

    Parameters
    ----------
    jobs : JobSet
        Jobs to choose from.
    order : numpy.ndarray of int64
        Positions of the jobs in the order in which they are tried.
    room : numpy.ndarray of shape (num_slots, num_resources)
        Free capacity in the present slot and in later ones. A job that runs longer is checked for these slots only.
    skip : bool
        Whether to skip a job that does not fit, instead of stopping there.

    Returns
    -------
    list of int
        Positions of the chosen jobs, in order.
    """
    if room.shape == (1, 1):
        return _first_fitting_now(jobs.cores[order].tolist(), order.tolist(), float(room[0, 0]), skip)
    room = room.copy()
    requests, durations = jobs.requests, jobs.duration.astype(np.int64)
    chosen = []
    for position in order.tolist():
        # only resources that the job requests must be free
        held = room[: durations[position]]
        if (held - requests[position] >= 0)[:, requests[position] > 0].all():
            held -= requests[position]
            chosen.append(position)
        elif not skip:
            break
    return chosen


def _first_fitting_now(requests: list[float], order: list[int], free: float, skip: bool) -> list[int]:
    """Return the same as :func:`first_fitting` for one resource and the present slot only."""
    chosen = []
    for position, request in zip(order, requests, strict=True):
        if request <= free:
            free -= request
            chosen.append(position)
        elif not skip:
            break
    return chosen


class Priority(NamedRepr):
    """Base class of priority rules: agents that start jobs in order of a score.

    Parameters
    ----------
    skip : bool
        Whether to skip jobs that do not fit; otherwise the first such job ends the slot.
    forecast : Forecast, optional
        Forecast of the capacity; a job is started only if it fits for its whole duration. Default: only the present
        slot is checked.
    """

    considers = frozenset({"eviction"})

    name: str = "priority"

    def __init__(self, *, skip: bool = True, forecast: Forecast | None = None) -> None:
        self.skip = skip
        self.forecast = forecast

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return a score for every job of ``observation.current``; the smallest comes first.

        Parameters
        ----------
        observation : DeferrableObservation
            Present observation.

        Returns
        -------
        numpy.ndarray of shape (num_current,)
            Scores. The base class uses the order in which the jobs became known.
        """
        return np.arange(len(observation.current), dtype=np.float64)

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs to start, in order."""
        current = observation.current
        if not len(current):
            return []
        order = np.argsort(self.scores(observation), kind="stable")
        if self.forecast is None:
            room = (observation.limit - observation.used)[None, :]
        else:
            steps = int(current.duration.max()) - 1
            room = free_ahead(observation, self.forecast.predict(observation, steps))
        return first_fitting(current, order, room, skip=self.skip)


class FIFO(Priority):
    """First in, first out.

    Parameters
    ----------
    since : {"submission", "window"}
        Time by which jobs are ordered: their submission, or the slot in which their start window opens.
    skip : bool
        Same as for :class:`Priority`.
    forecast : Forecast, optional
        Same as for :class:`Priority`.

    Raises
    ------
    InvalidConfiguration
        If ``since`` is unknown.
    """

    name = "fifo"

    def __init__(
        self,
        since: Literal["submission", "window"] = "submission",
        *,
        skip: bool = True,
        forecast: Forecast | None = None,
    ) -> None:
        super().__init__(skip=skip, forecast=forecast)
        self.since = check_choice("since", since, ("submission", "window"))

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return submission times or earliest starts, in slots."""
        current = observation.current
        return current.submission_time if self.since == "submission" else current.earliest_start


class SJF(Priority):
    """Shortest job first.

    Parameters
    ----------
    measure : {"duration", "work"}
        Measure of length: the duration in slots, or the duration times the number of cores.
    skip : bool
        Same as for :class:`Priority`.
    forecast : Forecast, optional
        Same as for :class:`Priority`.

    Raises
    ------
    InvalidConfiguration
        If the measure is unknown.
    """

    name = "sjf"

    def __init__(
        self,
        measure: Literal["duration", "work"] = "duration",
        *,
        skip: bool = True,
        forecast: Forecast | None = None,
    ) -> None:
        super().__init__(skip=skip, forecast=forecast)
        self.measure = check_choice("measure", measure, ("duration", "work"))
        self.name = "sjf" if measure == "duration" else "smallest-work"

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return durations in slots, or work in core-slots."""
        current = observation.current
        return current.duration if self.measure == "duration" else current.revenue


class Tetris(Priority):
    """Packing: alignment of a job's request with the free capacity, plus a weighted delay.

    Grandl et al., "Multi-resource packing for cluster schedulers", SIGCOMM 2014, start the task with the largest dot
    product of its request and the free capacity, both as shares of the total capacity, and add a weighted second term.
    Here the product is divided by the sum of the free shares and expressed in cores, so with cores alone the largest
    request comes first. The second term is the delay.

    Parameters
    ----------
    delay_weight : float
        Weight of the delay, in cores per slot.
    skip : bool
        Same as for :class:`Priority`.
    forecast : Forecast, optional
        Same as for :class:`Priority`.

    Raises
    ------
    InvalidConfiguration
        If the weight is negative or not finite.
    """

    name = "tetris"

    def __init__(self, delay_weight: float = 0.0, *, skip: bool = True, forecast: Forecast | None = None) -> None:
        super().__init__(skip=skip, forecast=forecast)
        self.delay_weight = check_float("delay_weight", delay_weight, least=0)

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return minus (alignment + weighted delay), in cores."""
        current = observation.current
        alignment = current.cores
        there = observation.capacity > 0  # no request fits a resource without capacity
        if len(observation.resources) > 1 and there[0]:
            scale = observation.capacity[there]
            free = np.maximum(observation.free[there], 0.0) / scale
            if free.any():
                alignment = scale[0] * (current.requests[:, there] / scale) @ free / free.sum()
        delay = observation.slot - current.earliest_start
        return -(alignment + self.delay_weight * delay)


class EarliestDeadline(Priority):
    """Earliest deadline first: the deadline is the end of a job that starts as late as possible.

    Parameters
    ----------
    skip : bool
        Same as for :class:`Priority`.
    forecast : Forecast, optional
        Same as for :class:`Priority`.
    """

    name = "earliest-deadline"

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return latest start + duration, in slots."""
        return observation.current.latest_start + observation.current.duration


class LargestRevenue(Priority):
    """Largest revenue first.

    Parameters
    ----------
    skip : bool
        Same as for :class:`Priority`.
    forecast : Forecast, optional
        Same as for :class:`Priority`.
    """

    name = "largest-revenue"

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return minus the revenue, in core-slots."""
        return -observation.current.revenue


class LeastSlack(Priority):
    """Least slack first: the number of slots by which a job's start can still be deferred.

    Parameters
    ----------
    skip : bool
        Same as for :class:`Priority`.
    forecast : Forecast, optional
        Same as for :class:`Priority`.
    """

    name = "least-slack"

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return latest start - present slot, in slots."""
        return observation.current.latest_start - observation.slot


class RandomOrder(Priority):
    """Random order, new in every slot: a minimal baseline.

    Parameters
    ----------
    skip : bool
        Same as for :class:`Priority`.
    forecast : Forecast, optional
        Same as for :class:`Priority`.
    """

    name = "random"

    def __init__(self, *, skip: bool = True, forecast: Forecast | None = None) -> None:
        super().__init__(skip=skip, forecast=forecast)
        self._rng = np.random.default_rng(0)

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Use the agent's random generator of a new run."""
        self._rng = rng

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return random numbers."""
        return self._rng.random(len(observation.current))
