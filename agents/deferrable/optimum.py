"""The best schedule in hindsight, which no agent can beat, as a mixed-integer linear program (HiGHS)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from desim.agents.bounds import Bounded
from desim.agents.deferrable.program import PlanningInstance, check_limits, solve, value_of
from desim.agents.deferrable.reinsertion import improved
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import ClairvoyantView, DeferrableCluster, DeferrableObservation, Job
from desim.problems.deferrable.job import check_job
from desim.reprs import NamedRepr

__all__ = ["Optimum", "Planned", "instance_of", "offline_optimum"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A gap that is no larger, relative to the bound, may come of the tolerances of the solver.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Optimum(Bounded):
    """The best schedule that was found, and how much better another can be.

    Attributes
    ----------
    jobs : tuple of Job
        All jobs, as in the foresight.
    starts : tuple of int or None
        The slot in which each is started; None if it is not.
    value : float
        What the schedule brings, equation (1) of the OSDEC paper, in core-slots.
    bound : float
        No schedule brings more, but for the tolerances of the solver; at least ``value``.
    proved : bool
        Whether value and bound are equal but for these, a millionth: no schedule is better.
    seconds : float
        How long the search took.
    """

    jobs: tuple[Job, ...]
    starts: tuple[int | None, ...]
    value: float
    bound: float
    proved: bool
    seconds: float

    def highest(self) -> float:
        """Return the bound.

        Returns
        -------
        float
            In core-slots, as the gap is.
        """
        return self.bound


def offline_optimum(
    foresight: ClairvoyantView,
    *,
    delay_weight: float = 2.0,
    violation_weight: float | Sequence[float] = 10.0,
    overcommit: bool = True,
    time_limit: float = 60.0,
    gap: float = 0.0,
) -> Optimum:
    """Find the schedule of largest reward when all jobs and capacities are known from the beginning.

    Revenue is earned in full also by jobs that run past the last slot; violations count in the slots of the foresight
    only. For an upper bound on all agents these must be the slots of the run: give the cluster a ``num_slots``.

    The bound holds for clusters that evict jobs, too: those that stay are a schedule themselves. The schedule, however,
    is for one that does not evict. Without violations it brings the same there, otherwise less.

    Parameters
    ----------
    foresight : ClairvoyantView
        What :func:`~desim.problems.deferrable.clairvoyant_view` returns.
    delay_weight : float
        w1, as for the cluster.
    violation_weight : float or sequence of float
        w2, as for the cluster.
    overcommit : bool
        Whether jobs may be started where they do not fit, as for the cluster. Without it there can be violations only
        where the capacity falls. The bound with it is one without it as well.
    time_limit : float
        Seconds of real time for the solver; if they are over, the best so far is returned, which another computer may
        not repeat.
    gap : float
        Relative gap at which the solver may stop.

    Returns
    -------
    Optimum
        With a proved upper bound. Of starts that bring the same, the earliest are taken.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or there are hopelessly many jobs.
    WorkloadError
        If a job makes no sense.

    Examples
    --------
    >>> from desim.problems.deferrable import clairvoyant_view
    >>> long = Job(1, submission_time=0, earliest_start=0, latest_start=3, duration=6, cores=2)
    >>> large = Job(2, submission_time=1, earliest_start=1, latest_start=1, duration=2, cores=4)
    >>> cluster = DeferrableCluster([long, large], [4], num_slots=6)
    >>> optimum = offline_optimum(clairvoyant_view(cluster))
    >>> optimum.starts, optimum.value, optimum.proved
    ((3, 1), 14.0, True)
    """
    begin = time.perf_counter()
    check_limits(time_limit, gap)
    jobs = tuple(foresight.jobs)
    table = np.asarray(foresight.capacity, dtype=np.float64)
    resources = tuple(f"resource {number}" for number in range(table.shape[1] if table.ndim == 2 else 1))
    # the cluster knows what its arguments must be
    cluster = DeferrableCluster(
        (), table, resources=resources, delay_weight=delay_weight, violation_weight=violation_weight
    )
    for job in jobs:
        check_job(job, len(resources))
    there = [number for number, job in enumerate(jobs) if job.earliest_start < len(table)]
    instance = instance_of([jobs[number] for number in there], table.reshape(len(table), -1), cluster, overcommit)
    starts, bound = _plan(instance, time_limit, gap)
    value = value_of(instance, starts)
    bound = max(bound, value)
    answer: list[int | None] = [None] * len(jobs)
    for number, start in zip(there, starts.tolist(), strict=True):
        answer[number] = start if start >= 0 else None
    return Optimum(jobs, tuple(answer), value, bound, _is_closed(value, bound), time.perf_counter() - begin)


def instance_of(jobs: list[Job], capacity: Floats, cluster: DeferrableCluster, overcommit: bool) -> PlanningInstance:
    """Return the program of all jobs in a capacity that is known.

    Parameters
    ----------
    jobs : list of Job
        Those that can be started.
    capacity : array of float, shape (num_slots, num_resources)
        What there is in each slot.
    cluster : DeferrableCluster
        Has the weights of the reward.
    overcommit : bool
        Whether jobs may be started beyond the capacity.

    Returns
    -------
    PlanningInstance
        For the solver.
    """
    whole = np.array([(job.earliest_start, job.latest_start, job.duration) for job in jobs], dtype=np.int64)
    first, last, duration = whole.reshape(-1, 3).T
    requests = np.array([(job.cores, *job.others) for job in jobs], dtype=np.float64)
    requests = requests.reshape(len(jobs), capacity.shape[1])
    return PlanningInstance(
        first=first,
        last=np.minimum(last, len(capacity) - 1),
        worth=requests[:, 0] * duration,
        duration=duration,
        requests=requests,
        capacity=capacity,
        held=np.zeros_like(capacity),
        delay_weight=cluster.delay_weight,
        violation_weights=cluster.violation_weights,
        overcommit=overcommit,
    )


def _plan(instance: PlanningInstance, time_limit: float, gap: float) -> tuple[Ints, float]:
    """Return the schedule of the solver, or of a greedy insertion if that is better, and a bound."""
    solution = solve(instance, time_limit=time_limit, gap=gap)
    candidates = []
    if solution.starts is not None:
        candidates.append(improved(instance, solution.starts))
    if not candidates or not _is_closed(value_of(instance, candidates[0]), solution.bound):
        candidates.append(improved(instance))
    return max(candidates, key=lambda starts: value_of(instance, starts)), solution.bound


def _is_closed(value: float, bound: float) -> bool:
    return bound - value <= TOLERANCE * max(bound, 1.0)


class Planned(NamedRepr):
    """An agent that starts jobs when a plan says so.

    Parameters
    ----------
    jobs : iterable of Job
        As they are submitted.
    starts : iterable of int or None
        The slot of each, None for those that are not started.

    Raises
    ------
    InvalidConfiguration
        If there are not as many starts as jobs, or a start is outside its job's window.

    Examples
    --------
    >>> from desim import simulate
    >>> job = Job(1, submission_time=0, earliest_start=0, latest_start=3, duration=2, cores=3)
    >>> result = simulate(DeferrableCluster([job], [3], num_slots=5), Planned([job], [2]))
    >>> result.jobs["starting_time"].to_list(), result.table("slots")["reward"].sum()
    ([2.0], 2.0)
    """

    name: ClassVar[str] = "planned"

    def __init__(self, jobs: Iterable[Job], starts: Iterable[int | None]) -> None:
        known, slots = tuple(jobs), tuple(starts)
        if len(known) != len(slots):
            raise InvalidConfiguration(f"there are {len(known)} jobs and {len(slots)} starts, want one for each job")
        self._due: dict[int, set[tuple[int, float]]] = {}
        for job, slot in zip(known, slots, strict=True):
            if slot is None:
                continue
            if not job.earliest_start <= slot <= job.latest_start:
                raise InvalidConfiguration(
                    f"job {job.job_id} is to be started in slot {slot!r}, want one from {job.earliest_start} to "
                    f"{job.latest_start}"
                )
            # identifiers may return once a job has left, but not together with the time of submission
            self._due.setdefault(slot, set()).add((job.job_id, float(job.submission_time)))

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs whose slot has come.

        Parameters
        ----------
        observation : DeferrableObservation
            What is seen now.

        Returns
        -------
        list of int
            In the order in which they became known.

        Raises
        ------
        InvalidConfiguration
            If a job of the plan cannot be started now, since the plan is for another workload.
        """
        due = self._due.get(observation.slot)
        if not due:
            return []
        current = observation.current
        known = zip(current.job_id.tolist(), current.submission_time.tolist(), strict=True)
        positions = [position for position, job in enumerate(known) if job in due]
        if len(positions) < len(due):
            known = zip(current.job_id.tolist(), current.submission_time.tolist(), strict=True)
            missing = min(due.difference(known))
            raise InvalidConfiguration(
                f"time {observation.slot}: job {missing[0]} is to be started and is not there: the plan is for another "
                "workload"
            )
        return positions
