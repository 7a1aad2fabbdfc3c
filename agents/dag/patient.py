"""List scheduling that waits for a faster executor where that is worth it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag.allocation import DEFT, Allocation
from desim.agents.dag.orders import Order, RankUp
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagObservation, JobState

__all__ = ["PatientScheduler"]

Floats = NDArray[np.float64]


class PatientScheduler:
    """Assigns nodes to idle executors only, and holds a node back while a busy one would finish it sooner.

    At each decision the executable nodes are gone through in order. The first of them is assigned that an idle executor
    finishes within ``slack`` times what the best of all executors takes, waiting for it included. If there is none, all
    wait for the next event; if nothing runs that could bring one, the node is assigned that loses least.

    Parameters
    ----------
    order : Order
        ``RankUp()`` by default.
    allocation : Allocation
        Chooses among the idle executors; ``DEFT()`` by default.
    slack : float
        At least 1. By what is lost on the best idle executor a node is held back, duplicates aside.

    Attributes
    ----------
    name : str
        The order, the allocation, and ``" (patient)"``.

    Raises
    ------
    InvalidConfiguration
        If the slack is below 1.
    """

    def __init__(self, order: Order | None = None, allocation: Allocation | None = None, *, slack: float = 1.0) -> None:
        if not slack >= 1:
            raise InvalidConfiguration(f"slack is {slack!r}, want at least 1")
        self.order = RankUp() if order is None else order
        self.allocation = DEFT() if allocation is None else allocation
        self.slack = slack
        self.name = f"{self.order.name}-{self.allocation.name} (patient)"
        self._keys: dict[JobState, list[float]] = {}

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run."""
        self._keys = {}
        self.order.reset(rng)

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the node that comes next; None to wait."""
        available, time = observation.available_times, observation.time
        idle = available <= time
        if not idle.any():
            return None
        nodes = list(observation.executable.values())
        finish = np.array([state.ready_times(node) for state, node in nodes])
        np.maximum(finish, available, out=finish)
        finish += np.array([state.run_times[node] for state, node in nodes])
        finish -= time
        best, best_idle = finish.min(axis=1), finish[:, idle].min(axis=1)
        soon = np.flatnonzero(best_idle <= self.slack * best + 1e-9 * max(time, 1.0))
        if len(soon):
            keys = self._keys_of(observation, nodes)
            state, node = nodes[min(soon.tolist(), key=keys.__getitem__)]
        elif ((available > time) & (available < np.inf)).any():
            return None
        else:  # only executors that are down would be better
            state, node = nodes[int((best_idle - np.where(best < np.inf, best, 0.0)).argmin())]
        return self.allocation.allocate(observation, state, node, np.where(idle, available, np.inf))

    def _keys_of(self, observation: DagObservation, nodes: list[tuple[JobState, int]]) -> list[float]:
        """Return the keys of nodes; of equal ones the first node comes first."""
        known = {} if self.order.changes else self._keys
        if len(known) > 2 * len(observation.jobs) + 4:
            known = {state: known[state] for state in observation.jobs.values() if state in known}
        for state, _ in nodes:
            if state not in known:
                known[state] = self.order.keys(observation, state).tolist()
        self._keys = known
        return [known[state][node] for state, node in nodes]
