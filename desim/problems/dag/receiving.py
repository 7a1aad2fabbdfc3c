"""How the inputs of a copy come to its executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from desim.problems.dag.copies import Copy, Delivery

if TYPE_CHECKING:
    import simpy

    from desim.problems.dag.job_state import JobState

__all__ = ["DirectTransfers", "Receiving"]


class Receiving(Protocol):
    """What moves data between executors."""

    def ready_time(self, copy: Copy) -> float | None:
        """Return when all inputs of a copy are there, in seconds; None if that is not known yet."""

    def settle(self, copy: Copy) -> None:
        """Fill in the inputs of a copy that starts."""

    def assigned(self, copy: Copy) -> None:
        """Learn that a copy has been assigned."""

    def finished(self, copy: Copy) -> None:
        """Learn that a copy has finished."""

    def dropped(self, copy: Copy) -> None:
        """Learn that a copy will not run."""

    def keep_received(self, copy: Copy, now: float) -> None:
        """Fill in the inputs that a waiting copy has received up to now."""

    def failed(self, executor: int) -> None:
        """Learn that an executor is down, and with it what it was sending and receiving."""

    def next_events(self) -> tuple[simpy.Event, ...]:
        """Return what it waits for."""


class DirectTransfers:
    """Data move between each pair of executors at that pair's speed, whatever else is moving.

    Each input comes from the copy whose data arrive first. That needs no event while data move: when a copy is next on
    its executor, the times at which its parents have finished tell when it can start.
    """

    def ready_time(self, copy: Copy) -> float | None:
        """Return when all inputs of a copy are there, in seconds; None while a parent has not finished."""
        state, executor = copy.state, copy.executor
        inputs = copy.inputs
        known = True
        latest = 0.0
        for parent, size in state.job.parent_lists[copy.node]:
            if parent in inputs:
                arrival = inputs[parent].arrival
            else:
                best = None
                for other in state.copies[parent]:
                    if not other.has_finished:  # may bring the data earlier
                        self._watch(state, parent, executor)
                        continue
                    arrival = state.arrival_from(other, size, executor, copy.assigned)
                    if best is None or arrival < best:
                        best = arrival
                if best is None:
                    known = False
                    continue
                arrival = best
            latest = max(latest, arrival)
        return latest if known else None

    def _watch(self, state: JobState, node: int, executor: int) -> None:
        watchers = state._watchers.setdefault(node, [])
        if executor not in watchers:
            watchers.append(executor)

    def settle(self, copy: Copy) -> None:
        """Fill in where the inputs of a copy came from."""
        self._fill(copy, float("inf"))

    def _fill(self, copy: Copy, latest: float) -> None:
        """Fill in the inputs that arrive up to a time, each from the copy that is first."""
        state, executor, inputs = copy.state, copy.executor, copy.inputs
        for parent, size in state.job.parent_lists[copy.node]:
            if parent in inputs:
                continue
            best = None
            first = latest
            for other in state.copies[parent]:
                if other.has_finished:
                    arrival = state.arrival_from(other, size, executor, copy.assigned)
                    if arrival < first or (arrival == first and best is None):
                        best, first = other, arrival
            if best is not None:
                begin = state.sending_time(best, executor, copy.assigned)
                inputs[parent] = Delivery(parent, best.executor, begin, first, size)

    def keep_received(self, copy: Copy, now: float) -> None:
        """Fill in the inputs that a waiting copy has received up to now."""
        self._fill(copy, now)

    def assigned(self, copy: Copy) -> None:
        """Do nothing: arrivals are computed when the copy is next."""

    def finished(self, copy: Copy) -> None:
        """Do nothing: the cluster tells the executors that wait."""

    def dropped(self, copy: Copy) -> None:
        """Do nothing: nothing is under way that would have to be stopped."""

    def failed(self, executor: int) -> None:
        """Do nothing: the copies on the executor are gone, and with them what they were sending."""

    def next_events(self) -> tuple[simpy.Event, ...]:
        """Return nothing: the executors wait for their inputs."""
        return ()
