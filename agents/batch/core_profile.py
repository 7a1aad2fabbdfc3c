"""The availability profile that knows which cores are free, not only how many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.profile import AvailabilityProfile, Slot, expected_releases
from desim.problems.batch import BatchObservation, lowest_cores

__all__ = ["CoreProfile"]


class CoreProfile(AvailabilityProfile):
    """The sets of free cores from now on.

    A job fits where the intersection of the free sets over its whole requested time is large
    enough, and takes the lowest cores of that: so do the reference schedulers of Batsim.

    Parameters
    ----------
    time : float
        Where the profile begins, in seconds.
    core_set : int
        Free cores at that time, as a bit set.
    """

    def __init__(self, time: float, core_set: int) -> None:
        super().__init__(time, core_set.bit_count())
        self._sets = [core_set]

    @classmethod
    def of_running(cls, observation: BatchObservation) -> CoreProfile:
        """Return what the running jobs leave free, by their expected ends."""
        profile = cls(observation.time, observation.free_core_set)
        ends, _, job_ids = expected_releases(observation)
        for end, job_id in zip(ends.tolist(), job_ids.tolist(), strict=True):
            cores = observation.core_set_of(job_id)
            profile.give(Slot(end, np.inf, cores.bit_count(), cores))
        return profile

    def advance(self, time: float) -> None:
        """Let the profile begin at a later time."""
        before = self._begin
        super().advance(time)
        del self._sets[: self._begin - before]

    def _insert(self, place: int, time: float) -> None:
        super()._insert(place, time)
        position = place - self._begin
        self._sets.insert(position, self._sets[position - 1])

    def _points_to_keep(self) -> NDArray[np.bool_]:
        keep = [True, *(a != b for a, b in zip(self._sets[1:], self._sets, strict=False))]
        self._sets = [cores for cores, kept in zip(self._sets, keep, strict=True) if kept]
        return np.array(keep)

    def _change(self, points: slice, slot: Slot, cores: int) -> None:
        super()._change(points, slot, cores)
        self._sets[points] = [core_set ^ slot.core_set for core_set in self._sets[points]]

    def agrees_with(self, observation: BatchObservation, taken: list[Slot]) -> bool:
        """Tell whether the profile begins with the cores that are free now, but for slots that are yet to be filled."""
        free = self._sets[0]
        for slot in taken:
            free |= slot.core_set
        return free == observation.free_core_set

    def fit(self, cores: int, duration: float) -> Slot | None:
        """Find the first point from which enough cores stay free together for a duration."""
        times, sets = self.times.tolist(), self._sets
        for position in np.flatnonzero(self.free >= cores).tolist():
            end = times[position] + duration
            common = sets[position]
            for later in range(position + 1, len(times)):
                if times[later] >= end:
                    break
                common &= sets[later]
                if common.bit_count() < cores:
                    break
            if common.bit_count() >= cores:
                return Slot(times[position], end, cores, lowest_cores(common, cores))
        return None
