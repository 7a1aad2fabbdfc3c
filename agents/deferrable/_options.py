"""Where jobs may begin, as the first variables of the planners' program: kinds of equal jobs, and slots for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable._instance import Instance
from desim.exceptions import InvalidConfiguration

__all__ = ["Kinds", "Options", "Room"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Entries of the matrix; with more the solver would only fill the memory.
LARGEST = 5_000_000


class Room(NamedTuple):
    """What is free, and what it costs to hold more, of shape (num_slots, num_resources) each.

    Of a resource that is requested in whole numbers only whole numbers can be held, and what there is may be rounded
    down. The first unit above costs less then, and the program is much tighter.

    Attributes
    ----------
    level : numpy.ndarray
        What may be held without a violation.
    free : numpy.ndarray
        What is left of that; 0 where more is held already.
    discount : numpy.ndarray
        By how much the violation is less than what is held above the level, from 0 to 1.
    is_whole : numpy.ndarray of bool, shape (num_resources,)
        Which resources are requested in whole numbers.
    """

    level: Floats
    free: Floats
    discount: Floats
    is_whole: NDArray[np.bool_]

    @classmethod
    def of(cls, instance: Instance) -> Room:
        """Compute them."""
        is_whole = (instance.requests % 1 == 0).all(axis=0) & (instance.held % 1 == 0).all(axis=0)
        level = np.where(is_whole, np.floor(instance.limit), instance.limit)
        discount = np.where(is_whole & (instance.held <= level), np.maximum(instance.capacity - level, 0.0), 0.0)
        return cls(level, np.maximum(level - instance.held, 0.0), discount, is_whole)

    def violation(self, slots: Ints, requests: Floats) -> Floats:
        """Return what requests add to the violation of slots, each alone beside what is held anyhow."""
        over = requests > self.free[slots]
        return np.where(over, requests - self.free[slots] - self.discount[slots], 0.0)


class Kinds(NamedTuple):
    """Equal jobs, counted.

    Attributes
    ----------
    example, num_jobs : numpy.ndarray of int64, shape (num_kinds,)
        A job of each kind, and how many there are.
    of_job : numpy.ndarray of int64, shape (num_jobs,)
        The kind of each job.
    """

    example: Ints
    num_jobs: Ints
    of_job: Ints

    @classmethod
    def of(cls, instance: Instance) -> Kinds:
        """Find the kinds."""
        columns = (instance.first, instance.last, instance.worth, instance.duration)
        table = np.column_stack([*columns, instance.requests])
        _, example, of_job, count = np.unique(table, axis=0, return_index=True, return_inverse=True, return_counts=True)
        return cls(example, count, of_job.reshape(-1))

    def assign(self, kind: Ints, slot: Ints) -> Ints:
        """Return a schedule in which jobs of these kinds, in ascending order, begin in these slots."""
        rank = np.arange(len(kind)) - np.searchsorted(kind, kind)
        there = rank < self.num_jobs[kind]
        order = np.argsort(self.of_job, kind="stable")
        begin = np.cumsum(self.num_jobs) - self.num_jobs
        starts = np.full(len(order), -1, dtype=np.int64)
        starts[order[(begin[kind] + rank)[there]]] = slot[there]
        return starts


class Options(NamedTuple):
    """Where jobs of each kind may begin; what cannot pay, or can never be, is left out.

    Attributes
    ----------
    kind, slot : numpy.ndarray of int64, shape (num_options,)
        Which jobs, and where they would begin; in ascending order.
    num_jobs : numpy.ndarray of int64, shape (num_options,)
        How many there are of the kind.
    gain : numpy.ndarray of shape (num_options,)
        What one of them brings.
    requests : numpy.ndarray of shape (num_options, num_resources)
        What one of them holds.
    entry_option, entry_slot : numpy.ndarray of int64, shape (num_entries,)
        An entry for each option and slot in which its jobs would run.
    """

    kind: Ints
    slot: Ints
    num_jobs: Ints
    gain: Floats
    requests: Floats
    entry_option: Ints
    entry_slot: Ints

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.kind)

    @classmethod
    def of(cls, instance: Instance, kinds: Kinds, room: Room) -> Options:
        """List them.

        Raises
        ------
        InvalidConfiguration
            If there are hopelessly many.
        """
        example = kinds.example
        width = (instance.last - instance.first + 1)[example]
        duration = np.minimum(instance.duration, instance.num_slots)[example]
        _check_size(int((width * duration).sum()) * room.free.shape[1])
        kind, later = _ranges(width)
        slot = instance.first[example][kind] + later
        gain = instance.worth[example][kind] - instance.delay_weight * later
        requests = instance.requests[example][kind]
        entry_option, later = _ranges(np.minimum(duration[kind], instance.num_slots - slot))
        entry_slot = slot[entry_option] + later
        # violations are convex in what is held: beside others a job causes no less than alone
        alone = room.violation(entry_slot, requests[entry_option]) @ instance.violation_weights
        keep = gain > np.bincount(entry_option, alone, len(kind))
        if not instance.overcommit:
            keep &= ((instance.held[slot] + requests <= room.level[slot]) | (requests == 0)).all(axis=1)
        kept = keep[entry_option]
        number = np.cumsum(keep) - 1
        columns = kind[keep], slot[keep], kinds.num_jobs[kind[keep]], gain[keep], requests[keep]
        return cls(*columns, number[entry_option[kept]], entry_slot[kept])

    def best(self, num_kinds: int) -> Floats:
        """Return what a job of each kind brings where it brings most."""
        best = np.zeros(num_kinds)
        np.maximum.at(best, self.kind, self.gain)
        return best

    def reach(self, num_slots: int) -> Floats:
        """Return the most that they can hold in each slot, of shape (num_slots, num_resources)."""
        pairs = self.kind[self.entry_option] * num_slots + self.entry_slot
        _, entry = np.unique(pairs, return_index=True)
        option = self.entry_option[entry]
        reach = np.zeros((num_slots, self.requests.shape[1]))
        np.add.at(reach, self.entry_slot[entry], self.requests[option] * self.num_jobs[option][:, None])
        return reach


def _ranges(lengths: Ints) -> tuple[Ints, Ints]:
    """Return 0, ..., length - 1 for each length, one after the other: which range, and the number in it."""
    which = np.repeat(np.arange(len(lengths)), lengths)
    return which, np.arange(len(which)) - (np.cumsum(lengths) - lengths)[which]


def _check_size(entries: int) -> None:
    if entries > LARGEST:
        raise InvalidConfiguration(
            f"the model has {entries} entries (windows times durations times resources), and at most {LARGEST} can be "
            "solved: plan fewer jobs, or fewer slots"
        )
