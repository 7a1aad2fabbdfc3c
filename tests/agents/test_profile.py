"""Availability profiles against cores that are looked up second by second."""

from __future__ import annotations

from random import Random

import pytest

from desim.problems.batch import AvailabilityProfile, CoreProfile, Reservation, lowest_cores

NUM_CORES, END = 8, 300
ALL = (1 << NUM_CORES) - 1


class Seconds:
    """What is free in each second, and the first slot by its definition."""

    def __init__(self, profile: AvailabilityProfile) -> None:
        self.by_name = isinstance(profile, CoreProfile)
        self.taken: list[Reservation] = []
        self.now = 0

    def free(self, second: int) -> int:
        """Return the set of free cores; where they are only counted, so many of the lowest."""
        held = [slot for slot in self.taken if slot.start <= second < slot.end]
        if not self.by_name:
            return (1 << NUM_CORES - sum(slot.cores for slot in held)) - 1
        busy = 0
        for slot in held:
            busy |= slot.core_set
        return ALL & ~busy

    def first(self, cores: int, duration: float) -> Reservation:
        """Return the first slot."""
        free = [self.free(second) for second in range(END)]
        for start in range(self.now, END):
            common = free[start]
            for second in range(start, start + int(duration)):
                common &= free[second]
            if common.bit_count() >= cores:
                return Reservation(start, start + duration, cores, lowest_cores(common, cores) if self.by_name else 0)
        raise AssertionError("there is room at the end")


@pytest.mark.parametrize("kind", [AvailabilityProfile, CoreProfile])
def test_slots_are_the_first_that_seconds_leave(kind: type[AvailabilityProfile]) -> None:
    moved = 0
    for seed in range(15):
        rng = Random(seed)
        profile = kind(0.0, ALL if kind is CoreProfile else NUM_CORES)
        plain = Seconds(profile)
        for _ in range(30):
            what = rng.choice(("fit", "fit", "fit", "end", "round", "later"))
            if what == "fit":
                slot = profile.fit(rng.randint(1, NUM_CORES), rng.randint(0, 12))
                assert slot is not None
                assert slot == plain.first(slot.cores, slot.end - slot.start)
                profile.take(slot)
                plain.taken.append(slot)
            elif what == "later":
                plain.now += rng.randint(0, 3)
                profile.advance(plain.now)
                plain.taken = [
                    slot._replace(start=max(slot.start, plain.now)) for slot in plain.taken if slot.end > plain.now
                ]
            elif what == "end" and plain.taken:
                profile.give(plain.taken.pop(rng.randrange(len(plain.taken))))
            elif what == "round":
                slots = [slot for slot in rng.sample(plain.taken, len(plain.taken)) if slot.start > plain.now]
                durations = [slot.end - slot.start for slot in slots]
                better = dict(profile.compress(slots, durations, [0.0] * len(slots)))
                for place, slot in enumerate(slots):
                    plain.taken.remove(slot)
                    first = plain.first(slot.cores, durations[place])
                    assert better.get(place, slot) == first
                    plain.taken.append(first)
                    moved += first != slot
            assert profile.times[0] == plain.now
            values = [plain.free(second) for second in range(END)]
            if kind is AvailabilityProfile:
                values = [value.bit_count() for value in values]
            changes = [second for second in range(plain.now + 1, END) if values[second] != values[second - 1]]
            assert profile.times == [plain.now, *changes]
            assert profile.free == [values[int(second)] for second in profile.times]
    assert moved > 10
