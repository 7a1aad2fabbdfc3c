"""EASY backfilling that chooses the size of each moldable job when it starts.

A good size lets the job end early and uses few core-seconds, because on C cores each core-second delays every other
queued job by 1/C s. So the cost of a size is the job's expected end plus (number of other queued jobs) x (core-seconds)
/ C. A job alone in the queue gets the size with which it ends first; in a long queue it gets the most efficient size.
For sizes that adapt to the load, see Srinivasan, Krishnamoorthy and Sadayappan, "A robust scheduling strategy for
moldable scheduling of parallel jobs", Cluster 2003.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from desim.agents.batch.cores_only import refuse_nodes
from desim.agents.batch.priorities import Priority, as_priority
from desim.problems.batch import BatchObservation
from desim.reprs import NamedRepr

__all__ = ["MoldableBackfilling"]


class MoldableBackfilling(NamedRepr):
    """EASY backfilling that gives each moldable job its best size; rigid jobs have one size.

    Jobs start in order of priority while the best size of the next one can start now. The first job whose best size has
    to wait gets a reservation; later jobs start in the best of the sizes that do not delay it. If the site has limits,
    only sizes within them are considered.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order of the jobs, for example ``"fcfs"`` or ``F1``.
    """

    considers = frozenset({"moldable"})

    def __init__(self, order: str | Priority | type[Priority] = "fcfs") -> None:
        self.priority = as_priority(order)
        self.name = f"easy-moldable-{self.priority.name}"

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator | None) -> None:
        """Begin a run; raise InvalidConfiguration if the cluster has nodes."""
        refuse_nodes(simulation_info, self.name, f"easy-{self.priority.name}")

    def act(self, observation: BatchObservation) -> list[Any] | Any:
        """Return the jobs to start and their sizes; one at a time under limits, because each start changes them."""
        self.priority.look(observation)
        queue, time, plan = observation.queue, observation.time, observation.plan(around_reservations=False)
        if not len(queue) or plan.is_full():
            return None
        weight = (len(queue) - 1) / observation.num_cores
        blocked = False
        for position in self.priority.order(queue, time).tolist():
            row = int(queue.row[position])
            sizes = observation.sizes_of(row)
            choices = []
            for number, (cores, length) in enumerate(sizes):
                size = number if len(sizes) > 1 else None
                if observation.allows_size(row, number) and (not blocked or plan.fits(position, size)):
                    start = time if blocked else plan.earliest(position, size)
                    choices.append((start + length + weight * cores * length, cores, number, size))
            if not choices:
                continue
            chosen = min(choices)[3]
            if plan.start(position, chosen):
                if observation.has_limits:
                    return plan.answer[0]
                if plan.is_full():
                    break
            elif not blocked:
                plan.reserve(position, chosen)
                blocked = True
        return plan.answer or None
