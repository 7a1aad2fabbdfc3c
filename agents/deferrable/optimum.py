"""Offline optimum: the best schedule in hindsight as a mixed-integer linear program, an upper bound on all agents."""

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

#: Relative gap up to which the difference may be due to the solver's tolerances.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Optimum(Bounded):
    """Best schedule found, with an upper bound on all schedules.

    Attributes
    ----------
    jobs : tuple of Job
        All jobs, in the order of the foresight.
    starts : tuple of int or None
        Start slot of each job; None if it is not started.
    value : float
        Reward of the schedule in core-slots, equation (1) of the OSDEC paper.
    bound : float
        Upper bound on the reward of any schedule, within the solver's tolerances; at least ``value``.
    proved : bool
        Whether the schedule is optimal: value and bound differ by less than the solver's tolerance of 1e-6, relative.
    seconds : float
        Wall-clock time of the search in seconds.
    """

    jobs: tuple[Job, ...]
    starts: tuple[int | None, ...]
    value: float
    bound: float
    proved: bool
    seconds: float

    def highest(self) -> float:
        """Return the upper bound.

        Returns
        -------
        float
            Upper bound in core-slots.
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

    Jobs that run past the last slot earn their full revenue; violations count only in the slots of the foresight. For
    an upper bound on all agents these must be the slots of the run: give the cluster a ``num_slots``.

    The bound also holds for clusters that evict jobs, because the jobs that are not evicted form a valid
    schedule. The schedule itself assumes no eviction. On a cluster with eviction it has the same reward if it causes no
    violation, otherwise less.

    Parameters
    ----------
    foresight : ClairvoyantView
        Result of :func:`~desim.problems.deferrable.clairvoyant_view`.
    delay_weight : float
        Weight w1 of the delay, as for the cluster.
    violation_weight : float or sequence of float
        Weight w2 of violations, as for the cluster.
    overcommit : bool
        Whether jobs may be started where they do not fit, as for the cluster. Otherwise violations are possible only
        where the capacity falls. The bound with overcommit is also valid without.
    time_limit : float
        Time limit of the solver in wall-clock seconds. If it is reached, the best schedule so far is returned, which
        may differ between computers.
    gap : float
        Relative gap at which the solver may stop.

    Returns
    -------
    Optimum
        Schedule with an upper bound. Ties between start slots go to the earliest.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the program is too large.
    WorkloadError
        If a job is invalid.

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
    # the cluster validates its arguments
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
    """Return the planning instance of jobs under a known capacity.

    Parameters
    ----------
    jobs : list of Job
        Jobs that can be started.
    capacity : array of float, shape (num_slots, num_resources)
        Capacity of each slot.
    cluster : DeferrableCluster
        Cluster that has the weights of the reward.
    overcommit : bool
        Whether jobs may be started beyond the capacity.

    Returns
    -------
    PlanningInstance
        Planning instance for the solver.
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
    """Return the better of the solver's and a greedy schedule, and an upper bound."""
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
    """Agent that follows a fixed plan.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs of the workload.
    starts : iterable of int or None
        Start slot of each job; None for jobs that are not started.

    Raises
    ------
    InvalidConfiguration
        If the numbers of starts and jobs differ, or a start is outside its job's start window.

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
            raise InvalidConfiguration(f"starts: got {len(slots)} for {len(known)} jobs, expected one per job")
        self._due: dict[int, set[tuple[int, float]]] = {}
        for job, slot in zip(known, slots, strict=True):
            if slot is None:
                continue
            if not job.earliest_start <= slot <= job.latest_start:
                raise InvalidConfiguration(
                    f"start of job {job.job_id}: got slot {slot!r}, expected {job.earliest_start} to {job.latest_start}"
                )
            # a job_id may be reused after its job has left, but not with the same submission time
            self._due.setdefault(slot, set()).add((job.job_id, float(job.submission_time)))

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs that the plan starts now.

        Parameters
        ----------
        observation : DeferrableObservation
            Present observation.

        Returns
        -------
        list of int
            Positions in the order in which the jobs became known.

        Raises
        ------
        InvalidConfiguration
            If a job that the plan starts now is not waiting, because the plan is for another workload.
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
                f"slot {observation.slot}: the plan starts job {missing[0]}, which is not waiting; the plan belongs to "
                "another workload"
            )
        return positions
