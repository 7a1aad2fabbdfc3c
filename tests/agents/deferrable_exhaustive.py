"""Small problems with deferrable jobs, and the best of all their schedules, in plain Python from the definition."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable import ClairvoyantView, DeferrableCluster, Job, clairvoyant_view

Starts = tuple[int | None, ...]

KINDS = ("whole", "quarters", "real", "fractional-capacity")


class Case(NamedTuple):
    """Jobs on a platform; of each slot and resource something may be held anyhow."""

    jobs: tuple[Job, ...]
    capacity: NDArray[np.float64]
    delay_weight: float
    violation_weight: tuple[float, ...]
    held: NDArray[np.float64] | None = None

    def cluster(self, **options: object) -> DeferrableCluster:
        """Return the cluster of a run that covers the series."""
        arguments: dict[str, object] = {
            "num_slots": len(self.capacity),
            "resources": tuple(f"resource{number}" for number in range(self.capacity.shape[1])),
            "delay_weight": self.delay_weight,
            "violation_weight": self.violation_weight,
        }
        return DeferrableCluster(self.jobs, self.capacity, **(arguments | options))  # type: ignore[arg-type]

    def foresight(self) -> ClairvoyantView:
        """Return what comes."""
        return clairvoyant_view(self.cluster())

    def weights(self) -> dict[str, object]:
        """Return the weights as arguments."""
        return {"delay_weight": self.delay_weight, "violation_weight": self.violation_weight}


def random_case(
    seed: int, *, max_jobs: int = 5, max_slots: int = 7, lead_time: int = 3, slack: int = 2, longest: int = 9
) -> Case:
    """Return a random problem: one or two resources, violations that may pay, jobs that run past the end."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    num_slots, num_resources = int(rng.integers(2, max_slots + 1)), int(rng.integers(1, 3))
    longest = int(rng.choice([2, 4, longest]))
    jobs = []
    for number in range(int(rng.integers(1, max_jobs + 1))):
        if jobs and rng.random() < 0.2:  # equal jobs
            jobs.append(jobs[-1]._replace(job_id=number))
            continue
        submission = float(rng.integers(0, 2 * num_slots)) / 2
        earliest = int(np.ceil(submission)) + int(rng.integers(0, lead_time + 1))
        latest = earliest + int(rng.integers(0, slack + 1))
        amounts = _amounts(rng, kind, num_resources)
        cores, others = max(amounts[0], 0.25 if kind == "quarters" else 1), tuple(amounts[1:])
        jobs.append(Job(number, submission, earliest, latest, int(rng.integers(1, longest + 1)), cores, others))
    jobs.sort(key=lambda job: job.submission_time)
    largest = float(rng.choice([5, 9, 15]))
    capacity = rng.uniform(0, largest, (num_slots, num_resources))
    if kind in ("whole", "quarters"):
        capacity = np.floor(capacity)
    weights = tuple(float(weight) for weight in rng.choice([0, 0.5, 1, 3, 10], num_resources))
    return Case(tuple(jobs), capacity, float(rng.choice([0, 0.5, 2])), weights)


def _amounts(rng: np.random.Generator, kind: str, number: int) -> list[float]:
    if kind == "real":
        return [float(amount) for amount in rng.uniform(0, 5, number)]
    amounts = rng.integers(0, 6, number) * (0.75 if kind == "quarters" else 1)
    return [float(amount) for amount in amounts]


def value_of(case: Case, starts: Starts) -> float:
    """Return equation (1)."""
    total, used = 0.0, _used(case, starts)
    for job, start in zip(case.jobs, starts, strict=True):
        if start is not None:
            total += job.cores * job.duration - case.delay_weight * (start - job.earliest_start)
    for slot, amounts in enumerate(used):
        for resource, amount in enumerate(amounts):
            violation = amount - case.capacity[slot, resource]
            if violation > 1e-9:
                total -= case.violation_weight[resource] * violation
    return total


def fits(case: Case, starts: Starts) -> bool:
    """Tell whether no job is started where what it holds exceeds the capacity."""
    used = _used(case, starts)
    for job, start in zip(case.jobs, starts, strict=True):
        if start is not None:
            for resource, request in enumerate((job.cores, *job.others)):
                if request > 0 and used[start][resource] > case.capacity[start, resource] + 1e-9:
                    return False
    return True


def _used(case: Case, starts: Starts) -> list[list[float]]:
    used: list[list[float]]
    used = (np.zeros_like(case.capacity) if case.held is None else case.held).tolist()
    for job, start in zip(case.jobs, starts, strict=True):
        if start is not None:
            for slot in range(start, min(start + job.duration, len(used))):
                for resource, request in enumerate((job.cores, *job.others)):
                    used[slot][resource] += request
    return used


def best_value(case: Case, *, overcommit: bool) -> float:
    """Return the value of the best of all schedules."""
    windows = [(None, *range(job.earliest_start, min(job.latest_start + 1, len(case.capacity)))) for job in case.jobs]
    schedules = (starts for starts in product(*windows) if overcommit or fits(case, starts))
    return max(value_of(case, starts) for starts in schedules)
