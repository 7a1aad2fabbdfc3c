"""When to start jobs of which all is known, as a mixed-integer linear program: the model of the planners.

The objective is equation (1) of the OSDEC paper (Dong et al.). With n[k, s] of the m[k] equal jobs of a kind k started
in slot s, and violations v,

    maximize    sum_(k,s) n[k, s] (r[k] - w1 (s - e[k]))  -  sum_(t,r) w2[r] v[t, r]
    subject to  sum_s n[k, s] <= m[k],   v[t, r] >= used[t, r] - C[t, r],   v >= 0,   n whole,

where used[t, r] is what those hold for which slot t is one of s, ..., s + d[k] - 1, beside what is held anyhow. To
count equal jobs, and not to choose among them, takes their symmetry away.

If jobs may not be started where they do not fit, a job that holds something of resource r may start in slot t only if
y[t, r] = 1, which excludes a violation:

    n[k, t] <= m[k] y[t, r],   v[t, r] <= M[t, r] (1 - y[t, r]).

A violation then comes only of a capacity that has fallen: what is held can be no more than the capacity was when the
last job that still runs was started, or than what is held from the outset. That is M, and where it is 0 no y is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.solver import Program, maximize
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable.observation import TOLERANCE

__all__ = [
    "Kinds",
    "Model",
    "Options",
    "PlanningInstance",
    "SlotCapacity",
    "Solution",
    "check_limits",
    "solve",
    "usage",
    "value_of",
]

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]


class PlanningInstance(NamedTuple):
    """Jobs, and the slots 0, ..., num_slots - 1 in which they may be started.

    A schedule is an array with the slot of each job, -1 if it is not started.

    Attributes
    ----------
    first, last : numpy.ndarray of int64, shape (num_jobs,)
        Their windows, within these slots.
    worth : numpy.ndarray of shape (num_jobs,)
        What they bring if they are started in ``first``, in core-slots.
    duration : numpy.ndarray of int64, shape (num_jobs,)
        Slots that they run.
    requests : numpy.ndarray of shape (num_jobs, num_resources)
        What they hold while they run.
    capacity, held : numpy.ndarray of shape (num_slots, num_resources)
        What there is, and what jobs hold that run already.
    delay_weight : float
        What each slot after ``first`` costs.
    violation_weights : numpy.ndarray of shape (num_resources,)
        What each unit and slot above the capacity costs.
    overcommit : bool
        Whether a job may be started where it does not fit.
    """

    first: Ints
    last: Ints
    worth: Floats
    duration: Ints
    requests: Floats
    capacity: Floats
    held: Floats
    delay_weight: float
    violation_weights: Floats
    overcommit: bool

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return len(self.first)

    @property
    def num_slots(self) -> int:
        """How many slots there are."""
        return len(self.capacity)

    @property
    def limit(self) -> Floats:
        """The capacity with the tolerance up to which the cluster counts it as kept."""
        return self.capacity + TOLERANCE * np.maximum(self.capacity, 1.0)

    @property
    def is_whole(self) -> bool:
        """Whether the values of all schedules are whole numbers."""
        parts = (self.worth, self.requests, self.capacity, self.held, self.violation_weights, self.delay_weight)
        return all(bool((np.asarray(part) % 1 == 0).all()) for part in parts)


def usage(instance: PlanningInstance, starts: Ints) -> Floats:
    """Return what is held in each slot, of shape (num_slots, num_resources)."""
    placed = np.flatnonzero(starts >= 0)
    begins, requests = starts[placed], instance.requests[placed]
    ends = np.minimum(begins + instance.duration[placed], instance.num_slots)
    changes = np.zeros((instance.num_slots + 1, requests.shape[1]))
    np.add.at(changes, begins, requests)
    np.subtract.at(changes, ends, requests)
    return np.asarray(instance.held + np.cumsum(changes[:-1], axis=0))


def value_of(instance: PlanningInstance, starts: Ints) -> float:
    """Return what a schedule brings, in core-slots, less the cost of all violations."""
    placed = starts >= 0
    delays = (starts - instance.first)[placed].sum()
    used = usage(instance, starts)
    violation = np.where(used > instance.limit, used - instance.capacity, 0.0)
    worth = instance.worth[placed].sum() - instance.delay_weight * delays
    return float(worth - (violation @ instance.violation_weights).sum())


#: Entries of the matrix; with more the solver would only fill the memory.
LARGEST = 5_000_000


class SlotCapacity(NamedTuple):
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
    def of(cls, instance: PlanningInstance) -> SlotCapacity:
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
    def of(cls, instance: PlanningInstance) -> Kinds:
        """Find the kinds."""
        columns = (instance.first, instance.last, instance.worth, instance.duration)
        table = np.column_stack([*columns, instance.requests])
        order = np.lexsort(table.T[::-1])
        is_new = np.ones(len(table), dtype=bool)
        is_new[1:] = (table[order[1:]] != table[order[:-1]]).any(axis=1)
        begin = np.flatnonzero(is_new)
        of_job = np.empty(len(table), dtype=np.int64)
        of_job[order] = np.cumsum(is_new) - 1
        return cls(order[begin], np.diff(begin, append=len(table)), of_job)

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
    def of(cls, instance: PlanningInstance, kinds: Kinds, room: SlotCapacity) -> Options:
        """List them; InvalidConfiguration if there are hopelessly many."""
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
        begin = self.slot.copy()
        end = begin + np.bincount(self.entry_option, minlength=self.number)
        # what the option before has in common with this one counts once
        is_next = np.flatnonzero(self.kind[1:] == self.kind[:-1]) + 1
        begin[is_next] = np.maximum(begin[is_next], end[is_next - 1])
        amount = self.requests * self.num_jobs[:, None]
        changes = np.zeros((num_slots + 1, self.requests.shape[1]))
        np.add.at(changes, begin, amount)
        np.subtract.at(changes, end, amount)
        return np.asarray(np.cumsum(changes[:-1], axis=0))


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


#: By how much the solver's bound may be off, where all values are whole numbers.
BOUND_OFF = 1e-5


class Solution(NamedTuple):
    """What the solver found.

    Attributes
    ----------
    starts : numpy.ndarray of int64, shape (num_jobs,), or None
        A schedule; None if it found none in its time.
    bound : float
        No schedule has a larger value, but for the tolerances of the solver.
    """

    starts: Ints | None
    bound: float


def check_limits(time_limit: float, gap: float) -> None:
    """Raise InvalidConfiguration if the limits of a search are out of range.

    Parameters
    ----------
    time_limit : float
        Seconds of real time.
    gap : float
        Relative gap at which the solver may stop.

    Raises
    ------
    InvalidConfiguration
        If one is.
    """
    if not time_limit > 0:
        raise InvalidConfiguration(f"time_limit is {time_limit!r}, want a number of seconds above 0")
    if not 0 <= gap < np.inf:
        raise InvalidConfiguration(f"gap is {gap!r}, want a number of at least 0")


def solve(instance: PlanningInstance, *, time_limit: float, gap: float, integral: bool = True) -> Solution:
    """Build the model and solve it with HiGHS.

    Parameters
    ----------
    instance : PlanningInstance
        What is to be planned.
    time_limit : float
        Seconds of real time.
    gap : float
        Relative gap at which the solver may stop.
    integral : bool
        Whether jobs are started as a whole; if not, the linear relaxation is solved, and there is no schedule.

    Returns
    -------
    Solution
        The best that it found.

    Raises
    ------
    InvalidConfiguration
        If the model is hopelessly large.
    MissingDependency
        If HiGHS cannot be loaded.
    """
    model = Model(instance)
    # violations that there are anyhow are not part of the model
    constant = value_of(instance, np.full(instance.num_jobs, -1, dtype=np.int64))
    if not model.options.number:
        return Solution(np.full(instance.num_jobs, -1, dtype=np.int64), constant)
    answer = maximize(model.program, time_limit=time_limit, gap=gap, integral=integral)
    bound = constant + answer.bound
    if integral and instance.is_whole:
        bound = np.floor(bound + BOUND_OFF)
    starts = model.starts_of(answer.values) if integral and answer.values is not None else None
    return Solution(starts, min(float(bound), constant + model.most))


class Model:
    """The program as arrays.

    Its variables are, one kind after the other: how many jobs are started for each option; violations, where there can
    be any; those of their first units that cost less; and y.

    Parameters
    ----------
    instance : PlanningInstance
        What is to be planned.
    """

    def __init__(self, instance: PlanningInstance) -> None:
        self.kinds = Kinds.of(instance)
        self._room = room = SlotCapacity.of(instance)
        self.options = Options.of(instance, self.kinds, room)
        self.most = float(self.options.best(len(self.kinds.num_jobs)) @ self.kinds.num_jobs)
        tight = self.options.reach(instance.num_slots) > room.free
        if instance.overcommit:
            tight &= instance.violation_weights > 0  # others cost nothing
        self._tight = np.nonzero(tight)
        self._row = np.where(tight, np.cumsum(tight).reshape(tight.shape) - 1, -1)
        self._columns: list[tuple[Floats, Floats, NDArray[np.bool_]]] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self._right: list[Floats] = []
        self._add_jobs()
        largest = np.full(len(self._tight[0]), np.inf)
        if not instance.overcommit:
            largest = self._largest_violations(instance)
        above, first_unit = self._add_violations(instance, largest)
        if not instance.overcommit:
            self._add_switches(largest, above, first_unit)
        gain, upper, is_whole = (np.concatenate(parts) for parts in zip(*self._columns, strict=True))
        row, column, value = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        self.program = Program(gain, upper, is_whole, np.concatenate(self._right), row, column, value)

    def _add_columns(self, gain: Floats, upper: Floats, is_whole: NDArray[np.bool_]) -> Ints:
        """Add variables and return their numbers."""
        first = sum(len(parts[0]) for parts in self._columns)
        self._columns.append((gain, upper, is_whole))
        return np.arange(first, first + len(gain))

    def _add_rows(self, right: Floats, *entries: tuple[Ints, Ints, Floats | float]) -> None:
        """Add constraints: right-hand sides, and entries as (row, column, value) with rows counted from 0."""
        first = sum(map(len, self._right))
        self._right.append(right)
        for row, column, value in entries:
            each = value if isinstance(value, np.ndarray) else np.full(len(row), value)
            self._entries.append((first + row, column, each))

    def _add_jobs(self) -> None:
        """So many jobs of each kind; where it has a single option, that is the variable's bound."""
        options = self.options
        count = options.num_jobs.astype(np.float64)
        self._add_columns(options.gain, count, np.ones(options.number, dtype=bool))
        several = np.bincount(options.kind, minlength=len(self.kinds.num_jobs)) > 1
        column = np.flatnonzero(several[options.kind])
        row = (np.cumsum(several) - 1)[options.kind[column]]
        self._add_rows(self.kinds.num_jobs[several].astype(np.float64), (row, column, 1.0))

    def _add_violations(self, instance: PlanningInstance, largest: Floats) -> tuple[Ints, Ints]:
        """What runs, less what is above, is at most what is free; return the variables of each row, -1 for none."""
        options, (slot, resource) = self.options, self._tight
        weights, is_whole = instance.violation_weights[resource], self._room.is_whole[resource]
        can_be = np.flatnonzero(largest > 0)
        above = np.full(len(slot), -1)
        above[can_be] = self._add_columns(-weights[can_be], largest[can_be], is_whole[can_be])
        discount = self._room.discount[slot, resource]
        cheap = np.flatnonzero((discount > 0) & (largest > 0))
        first_unit = np.full(len(slot), -1)
        first_unit[cheap] = self._add_columns(
            -(weights * (1 - discount))[cheap], np.ones(len(cheap)), np.ones(len(cheap), dtype=bool)
        )
        rows, values = self._row[options.entry_slot], options.requests[options.entry_option]
        entry, kind = np.nonzero((rows >= 0) & (values > 0))
        self._add_rows(
            self._room.free[slot, resource],
            (rows[entry, kind], options.entry_option[entry], values[entry, kind]),
            (can_be, above[can_be], -1.0),
            (cheap, first_unit[cheap], -1.0),
        )
        return above, first_unit

    def _largest_violations(self, instance: PlanningInstance) -> Floats:
        """Return how large the violation of each row can be that comes of a capacity that has fallen."""
        level = self._room.level
        longest = min(int(instance.duration.max(initial=1)), len(level))
        before = np.concatenate([np.full((longest - 1, level.shape[1]), -np.inf), level])
        peak = np.lib.stride_tricks.sliding_window_view(before, longest, axis=0).max(axis=2)
        largest: Floats = np.maximum(peak - np.maximum(level, instance.held), 0.0)
        return largest[self._tight]

    def _add_switches(self, largest: Floats, above: Ints, first_unit: Ints) -> None:
        """Where a violation is possible, either jobs are started or there is one."""
        options = self.options
        rows = self._row[options.slot]
        option, resource = np.nonzero((rows >= 0) & (options.requests > 0))
        row = rows[option, resource]
        option, row = option[largest[row] > 0], row[largest[row] > 0]
        row, switch = np.unique(row, return_inverse=True)
        number = len(row)
        columns = self._add_columns(np.zeros(number), np.ones(number), np.ones(number, dtype=bool))
        each = np.arange(len(option))
        count = options.num_jobs[option].astype(np.float64)
        self._add_rows(np.zeros(len(option)), (each, option, 1.0), (each, columns[switch], -count))
        cheap = np.flatnonzero(first_unit[row] >= 0)
        each = np.arange(number)
        self._add_rows(
            largest[row],
            (each, above[row], 1.0),
            (cheap, first_unit[row][cheap], 1.0),
            (each, columns, largest[row]),
        )

    def starts_of(self, variables: Floats) -> Ints:
        """Return the schedule of a solution: of equal jobs the first starts first."""
        counts = np.rint(variables[: self.options.number]).astype(np.int64)
        return self.kinds.assign(np.repeat(self.options.kind, counts), np.repeat(self.options.slot, counts))
