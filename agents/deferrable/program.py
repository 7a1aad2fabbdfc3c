"""Offline scheduling of known jobs as a mixed-integer linear program: the model of the planners.

The objective is equation (1) of the OSDEC paper (Dong et al.). Let n[k, s] of the m[k] equal jobs of kind k start in
slot s, with violations v:

    maximize    sum_(k,s) n[k, s] (r[k] - w1 (s - e[k]))  -  sum_(t,r) w2[r] v[t, r]
    subject to  sum_s n[k, s] <= m[k],   v[t, r] >= used[t, r] - C[t, r],   v >= 0,   n whole,

where used[t, r] is the usage by running jobs and by the jobs for which slot t is one of s, ..., s + d[k] - 1. Counting
equal jobs instead of choosing among them removes their symmetry.

If jobs may not be started where they do not fit, a job that uses resource r may start in slot t only if y[t, r] = 1,
which excludes a violation:

    n[k, t] <= m[k] y[t, r],   v[t, r] <= M[t, r] (1 - y[t, r]).

A violation is then possible only after a fall of the capacity: the usage is at most the capacity at the time when the
last job that still runs was started, or the initial usage. This gives M; where M is 0, no y is needed.
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
    """Planning instance: jobs to schedule in the slots 0, ..., num_slots - 1.

    A schedule is an array with the start slot of each job, -1 if it is not started.

    Attributes
    ----------
    first, last : numpy.ndarray of int64, shape (num_jobs,)
        First and last slot of each job's start window.
    worth : numpy.ndarray of shape (num_jobs,)
        Reward of each job if it starts in ``first``, in core-slots.
    duration : numpy.ndarray of int64, shape (num_jobs,)
        Duration of each job in slots.
    requests : numpy.ndarray of shape (num_jobs, num_resources)
        Resources that each job uses while it runs.
    capacity, held : numpy.ndarray of shape (num_slots, num_resources)
        Capacity, and usage by jobs that are already running.
    delay_weight : float
        Cost of each slot of delay after ``first``.
    violation_weights : numpy.ndarray of shape (num_resources,)
        Cost of each unit above the capacity, per slot.
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
        """Number of jobs."""
        return len(self.first)

    @property
    def num_slots(self) -> int:
        """Number of slots."""
        return len(self.capacity)

    @property
    def limit(self) -> Floats:
        """Capacity plus the tolerance within which the cluster counts no violation."""
        return self.capacity + TOLERANCE * np.maximum(self.capacity, 1.0)

    @property
    def is_whole(self) -> bool:
        """Whether the values of all schedules are integers."""
        parts = (self.worth, self.requests, self.capacity, self.held, self.violation_weights, self.delay_weight)
        return all(bool((np.asarray(part) % 1 == 0).all()) for part in parts)


def usage(instance: PlanningInstance, starts: Ints) -> Floats:
    """Return the usage in each slot, shape (num_slots, num_resources)."""
    placed = np.flatnonzero(starts >= 0)
    begins, requests = starts[placed], instance.requests[placed]
    ends = np.minimum(begins + instance.duration[placed], instance.num_slots)
    changes = np.zeros((instance.num_slots + 1, requests.shape[1]))
    np.add.at(changes, begins, requests)
    np.subtract.at(changes, ends, requests)
    return np.asarray(instance.held + np.cumsum(changes[:-1], axis=0))


def value_of(instance: PlanningInstance, starts: Ints) -> float:
    """Return the reward of a schedule in core-slots, minus the cost of all violations."""
    placed = starts >= 0
    delays = (starts - instance.first)[placed].sum()
    used = usage(instance, starts)
    violation = np.where(used > instance.limit, used - instance.capacity, 0.0)
    worth = instance.worth[placed].sum() - instance.delay_weight * delays
    return float(worth - (violation @ instance.violation_weights).sum())


#: Largest number of matrix entries; a larger program would only fill the memory.
LARGEST = 5_000_000


class SlotCapacity(NamedTuple):
    """Free capacity and the cost of exceeding it; arrays have shape (num_slots, num_resources).

    If all requests of a resource are integers, so is its usage, and its capacity can be rounded down. The first unit
    above it then costs less. This makes the program much tighter.

    Attributes
    ----------
    level : numpy.ndarray
        Largest usage without a violation.
    free : numpy.ndarray
        Part of the level that is free; 0 where running jobs exceed it.
    discount : numpy.ndarray
        Difference between the usage above the level and the violation, from 0 to 1.
    is_whole : numpy.ndarray of bool, shape (num_resources,)
        Whether all requests of a resource are integers.
    """

    level: Floats
    free: Floats
    discount: Floats
    is_whole: NDArray[np.bool_]

    @classmethod
    def of(cls, instance: PlanningInstance) -> SlotCapacity:
        """Compute the free capacity of an instance."""
        is_whole = (instance.requests % 1 == 0).all(axis=0) & (instance.held % 1 == 0).all(axis=0)
        level = np.where(is_whole, np.floor(instance.limit), instance.limit)
        discount = np.where(is_whole & (instance.held <= level), np.maximum(instance.capacity - level, 0.0), 0.0)
        return cls(level, np.maximum(level - instance.held, 0.0), discount, is_whole)

    def violation(self, slots: Ints, requests: Floats) -> Floats:
        """Return the violation that each request would cause in its slot, with only the running jobs besides."""
        over = requests > self.free[slots]
        return np.where(over, requests - self.free[slots] - self.discount[slots], 0.0)


class Kinds(NamedTuple):
    """Groups of equal jobs.

    Attributes
    ----------
    example, num_jobs : numpy.ndarray of int64, shape (num_kinds,)
        One job of each kind, and the number of jobs of the kind.
    of_job : numpy.ndarray of int64, shape (num_jobs,)
        Kind of each job.
    """

    example: Ints
    num_jobs: Ints
    of_job: Ints

    @classmethod
    def of(cls, instance: PlanningInstance) -> Kinds:
        """Find the groups of equal jobs of an instance."""
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
        """Return a schedule that starts a job of each given kind, in ascending order, in the given slot."""
        rank = np.arange(len(kind)) - np.searchsorted(kind, kind)
        there = rank < self.num_jobs[kind]
        order = np.argsort(self.of_job, kind="stable")
        begin = np.cumsum(self.num_jobs) - self.num_jobs
        starts = np.full(len(order), -1, dtype=np.int64)
        starts[order[(begin[kind] + rank)[there]]] = slot[there]
        return starts


class Options(NamedTuple):
    """Start slots of each kind of job, without those that are infeasible or cannot gain anything.

    Attributes
    ----------
    kind, slot : numpy.ndarray of int64, shape (num_options,)
        Kind of job and start slot, in ascending order.
    num_jobs : numpy.ndarray of int64, shape (num_options,)
        Number of jobs of the kind.
    gain : numpy.ndarray of shape (num_options,)
        Reward of one job.
    requests : numpy.ndarray of shape (num_options, num_resources)
        Resources that one job uses.
    entry_option, entry_slot : numpy.ndarray of int64, shape (num_entries,)
        Pairs of an option and a slot in which its jobs would run.
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
        """Number of options."""
        return len(self.kind)

    @classmethod
    def of(cls, instance: PlanningInstance, kinds: Kinds, room: SlotCapacity) -> Options:
        """List the options of an instance; raise InvalidConfiguration if there are too many."""
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
        # violations are convex in the usage: a job causes at least as much beside others as alone
        alone = room.violation(entry_slot, requests[entry_option]) @ instance.violation_weights
        keep = gain > np.bincount(entry_option, alone, len(kind))
        if not instance.overcommit:
            keep &= ((instance.held[slot] + requests <= room.level[slot]) | (requests == 0)).all(axis=1)
        kept = keep[entry_option]
        number = np.cumsum(keep) - 1
        columns = kind[keep], slot[keep], kinds.num_jobs[kind[keep]], gain[keep], requests[keep]
        return cls(*columns, number[entry_option[kept]], entry_slot[kept])

    def best(self, num_kinds: int) -> Floats:
        """Return the largest reward of a job of each kind."""
        best = np.zeros(num_kinds)
        np.maximum.at(best, self.kind, self.gain)
        return best

    def reach(self, num_slots: int) -> Floats:
        """Return an upper bound on the usage in each slot, shape (num_slots, num_resources)."""
        begin = self.slot.copy()
        end = begin + np.bincount(self.entry_option, minlength=self.number)
        # slots shared with the previous option of the kind count once
        is_next = np.flatnonzero(self.kind[1:] == self.kind[:-1]) + 1
        begin[is_next] = np.maximum(begin[is_next], end[is_next - 1])
        amount = self.requests * self.num_jobs[:, None]
        changes = np.zeros((num_slots + 1, self.requests.shape[1]))
        np.add.at(changes, begin, amount)
        np.subtract.at(changes, end, amount)
        return np.asarray(np.cumsum(changes[:-1], axis=0))


def _ranges(lengths: Ints) -> tuple[Ints, Ints]:
    """Return the ranges 0, ..., length - 1 of all lengths, concatenated: index of the range, and position in it."""
    which = np.repeat(np.arange(len(lengths)), lengths)
    return which, np.arange(len(which)) - (np.cumsum(lengths) - lengths)[which]


def _check_size(entries: int) -> None:
    if entries > LARGEST:
        raise InvalidConfiguration(
            f"program size (windows x durations x resources): got {entries} entries, expected at most {LARGEST}; try "
            "fewer jobs, or fewer slots"
        )


#: Tolerance of the solver's bound where all values are integers.
BOUND_OFF = 1e-5


class Solution(NamedTuple):
    """Solution of the planning program.

    Attributes
    ----------
    starts : numpy.ndarray of int64, shape (num_jobs,), or None
        Schedule; None if none was found within the time limit.
    bound : float
        Upper bound on the value of any schedule, within the solver's tolerances.
    """

    starts: Ints | None
    bound: float


def check_limits(time_limit: float, gap: float) -> None:
    """Raise InvalidConfiguration if the limits of a search are out of range.

    Parameters
    ----------
    time_limit : float
        Time limit in wall-clock seconds.
    gap : float
        Relative gap at which the solver may stop.

    Raises
    ------
    InvalidConfiguration
        If a limit is out of range.
    """
    if not time_limit > 0:
        raise InvalidConfiguration(f"time_limit: got {time_limit!r}, expected a number > 0, in seconds")
    if not 0 <= gap < np.inf:
        raise InvalidConfiguration(f"gap: got {gap!r}, expected a finite number >= 0")


def solve(instance: PlanningInstance, *, time_limit: float, gap: float, integral: bool = True) -> Solution:
    """Build the program and solve it with HiGHS.

    Parameters
    ----------
    instance : PlanningInstance
        Planning instance.
    time_limit : float
        Time limit in wall-clock seconds.
    gap : float
        Relative gap at which the solver may stop.
    integral : bool
        Whether to require integer solutions; otherwise only the bound of the linear relaxation is computed.

    Returns
    -------
    Solution
        Best schedule found, and a bound.

    Raises
    ------
    InvalidConfiguration
        If the program is too large.
    MissingDependency
        If HiGHS cannot be loaded.
    """
    model = Model(instance)
    # violations by running jobs alone are a constant that the program leaves out
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
    """Planning program as arrays.

    Its variables are, in this order: the number of jobs started per option; the violations that are possible; the first
    units of violations that cost less; and y.

    Parameters
    ----------
    instance : PlanningInstance
        Planning instance.
    """

    def __init__(self, instance: PlanningInstance) -> None:
        self.kinds = Kinds.of(instance)
        self._room = room = SlotCapacity.of(instance)
        self.options = Options.of(instance, self.kinds, room)
        self.most = float(self.options.best(len(self.kinds.num_jobs)) @ self.kinds.num_jobs)
        tight = self.options.reach(instance.num_slots) > room.free
        if instance.overcommit:
            tight &= instance.violation_weights > 0  # other violations are free
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
        """Add variables and return their indices."""
        first = sum(len(parts[0]) for parts in self._columns)
        self._columns.append((gain, upper, is_whole))
        return np.arange(first, first + len(gain))

    def _add_rows(self, right: Floats, *entries: tuple[Ints, Ints, Floats | float]) -> None:
        """Add constraints: right-hand sides, and entries (row, column, value) with rows counted from 0."""
        first = sum(map(len, self._right))
        self._right.append(right)
        for row, column, value in entries:
            each = value if isinstance(value, np.ndarray) else np.full(len(row), value)
            self._entries.append((first + row, column, each))

    def _add_jobs(self) -> None:
        """Limit the number of jobs of each kind; for a kind with one option, the variable's bound is enough."""
        options = self.options
        count = options.num_jobs.astype(np.float64)
        self._add_columns(options.gain, count, np.ones(options.number, dtype=bool))
        several = np.bincount(options.kind, minlength=len(self.kinds.num_jobs)) > 1
        column = np.flatnonzero(several[options.kind])
        row = (np.cumsum(several) - 1)[options.kind[column]]
        self._add_rows(self.kinds.num_jobs[several].astype(np.float64), (row, column, 1.0))

    def _add_violations(self, instance: PlanningInstance, largest: Floats) -> tuple[Ints, Ints]:
        """Add: usage minus violation is at most the free capacity; return the variables of each row, -1 for none."""
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
        """Return the largest violation of each row that a fall of the capacity can cause."""
        level = self._room.level
        longest = min(int(instance.duration.max(initial=1)), len(level))
        before = np.concatenate([np.full((longest - 1, level.shape[1]), -np.inf), level])
        peak = np.lib.stride_tricks.sliding_window_view(before, longest, axis=0).max(axis=2)
        largest: Floats = np.maximum(peak - np.maximum(level, instance.held), 0.0)
        return largest[self._tight]

    def _add_switches(self, largest: Floats, above: Ints, first_unit: Ints) -> None:
        """Add the constraints with y: in a slot either jobs start or there is a violation, not both."""
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
        """Return the schedule of a solution; equal jobs start in their order."""
        counts = np.rint(variables[: self.options.number]).astype(np.int64)
        return self.kinds.assign(np.repeat(self.options.kind, counts), np.repeat(self.options.slot, counts))
