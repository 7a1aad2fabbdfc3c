"""Priority orders for deferrable jobs: each starts, in its order, what fits.

A priority gives every job whose window is open a score; the smallest comes first, and of equal scores the job that
became known earlier. Jobs are started in this order while they fit into what is free. What does not fit is passed
over, or, with ``skip=False``, ends the slot, as the OSDEC paper (Dong et al., section 4.1.2) decodes the scores of its
agents.

None of them starts what exceeds the capacity of the slot that begins. With a forecast they do not start either what
would exceed the capacity later, as far as the forecast knows.
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
    """Return the positions of the jobs that fit, each beside those before it.

    Parameters
    ----------
    jobs : JobSet
        The jobs.
    order : numpy.ndarray of int64
        Positions in which they are tried.
    room : numpy.ndarray of shape (num_slots, num_resources)
        What is free in this slot and in later ones. A job that runs longer is checked against what there is.
    skip : bool
        Pass over what does not fit; if not, stop there.

    Returns
    -------
    list of int
        Positions, in order.
    """
    if room.shape == (1, 1):
        return _first_fitting_now(jobs.cores[order].tolist(), order.tolist(), float(room[0, 0]), skip)
    room = room.copy()
    requests, durations = jobs.requests, jobs.duration.astype(np.int64)
    chosen = []
    for position in order.tolist():
        # a job that holds nothing of a resource does not mind if that is short
        held = room[: durations[position]]
        if (held - requests[position] >= 0)[:, requests[position] > 0].all():
            held -= requests[position]
            chosen.append(position)
        elif not skip:
            break
    return chosen


def _first_fitting_now(requests: list[float], order: list[int], free: float, skip: bool) -> list[int]:
    """Do the same for one resource and for this slot alone."""
    chosen = []
    for position, request in zip(order, requests, strict=True):
        if request <= free:
            free -= request
            chosen.append(position)
        elif not skip:
            break
    return chosen


class Priority(NamedRepr):
    """An order of the jobs whose window is open, and the agent that follows it.

    Parameters
    ----------
    skip : bool
        Pass over jobs that do not fit; if not, the first of them ends the slot.
    forecast : Forecast, optional
        Start only what fits, by this forecast, for as long as it runs.
    """

    name: str = "priority"

    def __init__(self, *, skip: bool = True, forecast: Forecast | None = None) -> None:
        self.skip = skip
        self.forecast = forecast

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return a score for every job of ``observation.current``; the smallest comes first.

        Parameters
        ----------
        observation : DeferrableObservation
            What is seen now.

        Returns
        -------
        numpy.ndarray of shape (num_current,)
            Here the order in which the jobs became known; the rules have others.
        """
        return np.arange(len(observation.current), dtype=np.float64)

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs to be started, in order."""
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
        What a job has waited since: its submission, or the slot in which its window has opened.
    skip : bool
        As for :class:`Priority`.
    forecast : Forecast, optional
        As for :class:`Priority`.

    Raises
    ------
    InvalidConfiguration
        If ``since`` is something else.
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
        What is short: the slots that a job runs, or these times its cores.
    skip : bool
        As for :class:`Priority`.
    forecast : Forecast, optional
        As for :class:`Priority`.

    Raises
    ------
    InvalidConfiguration
        If there is no such measure.
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
    """Packing: by how well a job's request aligns with what is free, and by how long it has been deferred.

    Grandl et al., "Multi-resource packing for cluster schedulers", SIGCOMM 2014, start the task with the largest dot
    product of its request and of what is free, both as shares of the capacity, and add a weighted second term. Here the
    product is divided by the sum of the free shares and given in cores, so that of cores alone the largest request
    comes first, and the second term is the delay.

    Parameters
    ----------
    delay_weight : float
        Cores that a slot of delay counts for.
    skip : bool
        As for :class:`Priority`.
    forecast : Forecast, optional
        As for :class:`Priority`.

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
        there = observation.capacity > 0  # where there is nothing, no request for it fits anyhow
        if len(observation.resources) > 1 and there[0]:
            scale = observation.capacity[there]
            free = np.maximum(observation.free[there], 0.0) / scale
            if free.any():
                alignment = scale[0] * (current.requests[:, there] / scale) @ free / free.sum()
        delay = observation.slot - current.earliest_start
        return -(alignment + self.delay_weight * delay)


class EarliestDeadline(Priority):
    """Earliest deadline first: by the slot at which a job ends if it is started as late as possible.

    Parameters
    ----------
    skip : bool
        As for :class:`Priority`.
    forecast : Forecast, optional
        As for :class:`Priority`.
    """

    name = "earliest-deadline"

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return latest start + duration, in slots."""
        return observation.current.latest_start + observation.current.duration


class LargestRevenue(Priority):
    """The job that brings most first.

    Parameters
    ----------
    skip : bool
        As for :class:`Priority`.
    forecast : Forecast, optional
        As for :class:`Priority`.
    """

    name = "largest-revenue"

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return minus the revenue, in core-slots."""
        return -observation.current.revenue


class LeastSlack(Priority):
    """By how long a job can still be deferred.

    Parameters
    ----------
    skip : bool
        As for :class:`Priority`.
    forecast : Forecast, optional
        As for :class:`Priority`.
    """

    name = "least-slack"

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return latest start - now, in slots."""
        return observation.current.latest_start - observation.slot


class RandomOrder(Priority):
    """A new random order in every slot: what any rule has to beat.

    Parameters
    ----------
    skip : bool
        As for :class:`Priority`.
    forecast : Forecast, optional
        As for :class:`Priority`.
    """

    name = "random"

    def __init__(self, *, skip: bool = True, forecast: Forecast | None = None) -> None:
        super().__init__(skip=skip, forecast=forecast)
        self._rng = np.random.default_rng(0)

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Take the agent's random stream of a new run."""
        self._rng = rng

    def scores(self, observation: DeferrableObservation) -> Floats:
        """Return random numbers."""
        return self._rng.random(len(observation.current))
