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

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable.observation import TOLERANCE

__all__ = [
    "Instance",
    "Kinds",
    "Options",
    "Room",
    "Solution",
    "check_limits",
    "improved",
    "no_solver_output",
    "solve",
    "usage",
    "value_of",
]

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]


class Instance(NamedTuple):
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


def usage(instance: Instance, starts: Ints) -> Floats:
    """Return what is held in each slot, of shape (num_slots, num_resources)."""
    placed = np.flatnonzero(starts >= 0)
    begins, requests = starts[placed], instance.requests[placed]
    ends = np.minimum(begins + instance.duration[placed], instance.num_slots)
    changes = np.zeros((instance.num_slots + 1, requests.shape[1]))
    np.add.at(changes, begins, requests)
    np.subtract.at(changes, ends, requests)
    return np.asarray(instance.held + np.cumsum(changes[:-1], axis=0))


def value_of(instance: Instance, starts: Ints) -> float:
    """Return what a schedule brings, in core-slots, less the cost of all violations."""
    placed = starts >= 0
    delays = (starts - instance.first)[placed].sum()
    used = usage(instance, starts)
    violation = np.where(used > instance.limit, used - instance.capacity, 0.0)
    worth = instance.worth[placed].sum() - instance.delay_weight * delays
    return float(worth - (violation @ instance.violation_weights).sum())


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


STDOUT = 1


class _Redirection:
    """How many threads are within, and what the standard output was before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._saved: int | None = None

    def begin(self) -> None:
        """Redirect, if nobody has."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                with suppress(OSError):  # there may be no standard output
                    _flush()
                    self._saved = os.dup(STDOUT)
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, STDOUT)
                    os.close(nowhere)

    def end(self) -> None:
        """Put things back, if nobody else is within."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._saved is not None:
                _flush()
                os.dup2(self._saved, STDOUT)
                os.close(self._saved)
                self._saved = None


_redirection = _Redirection()


def _flush() -> None:
    """Write what the C library holds back."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


@contextmanager
def no_solver_output() -> Iterator[None]:
    """Let C code within print to nowhere.

    HiGHS 1.12, as in scipy 1.17, leaves a line for debugging on the standard output now and then, whatever its options
    are.

    Yields
    ------
    None
        Nothing; all threads of the process are concerned.
    """
    _redirection.begin()
    try:
        yield
    finally:
        _redirection.end()


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


def solve(instance: Instance, *, time_limit: float, gap: float, integral: bool = True) -> Solution:
    """Build the model and solve it with HiGHS.

    Parameters
    ----------
    instance : Instance
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
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    model = _Model(instance)
    # violations that there are anyhow are not part of the model
    constant = value_of(instance, np.full(instance.num_jobs, -1, dtype=np.int64))
    if not model.options.number:
        return Solution(np.full(instance.num_jobs, -1, dtype=np.int64), constant)
    with no_solver_output():
        answer: Any = milp(
            -model.gain,
            integrality=model.integrality if integral else None,
            bounds=Bounds(0.0, model.upper),
            constraints=LinearConstraint(model.matrix, -np.inf, model.right),
            options={"time_limit": time_limit, "mip_rel_gap": gap},
        )
    if answer.x is None:
        return Solution(None, constant + model.most)
    if not integral:
        return Solution(None, constant - answer.fun)
    bound = constant - answer.mip_dual_bound
    if instance.is_whole:
        bound = np.floor(bound + BOUND_OFF)
    return Solution(model.starts_of(answer.x), min(float(bound), constant + model.most))


class _Model:
    """The program as arrays: maximize gain x subject to matrix x <= right, 0 <= x <= upper.

    Its variables are, one kind after the other: how many jobs are started for each option; violations, where there can
    be any; those of their first units that cost less; and y.

    Parameters
    ----------
    instance : Instance
        What is to be planned.
    """

    def __init__(self, instance: Instance) -> None:
        self.kinds = Kinds.of(instance)
        self._room = room = Room.of(instance)
        self.options = Options.of(instance, self.kinds, room)
        self.most = float(self.options.best(len(self.kinds.num_jobs)) @ self.kinds.num_jobs)
        tight = self.options.reach(instance.num_slots) > room.free
        if instance.overcommit:
            tight &= instance.violation_weights > 0  # others cost nothing
        self._tight = np.nonzero(tight)
        self._row = np.where(tight, np.cumsum(tight).reshape(tight.shape) - 1, -1)
        self._columns: list[tuple[Floats, Floats, Floats]] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self._right: list[Floats] = []
        self._add_jobs()
        largest = np.full(len(self._tight[0]), np.inf)
        if not instance.overcommit:
            largest = self._largest_violations(instance)
        above, first_unit = self._add_violations(instance, largest)
        if not instance.overcommit:
            self._add_switches(largest, above, first_unit)
        self.gain, self.upper, self.integrality = (np.concatenate(parts) for parts in zip(*self._columns, strict=True))
        self.right = np.concatenate(self._right)
        self.matrix = self._matrix()

    def _add_columns(self, gain: Floats, upper: Floats, is_whole: Floats) -> Ints:
        """Add variables and return their numbers."""
        first = sum(len(parts[0]) for parts in self._columns)
        self._columns.append((gain, upper, is_whole))
        return np.arange(first, first + len(gain))

    def _add_rows(self, right: Floats, *entries: tuple[Ints, Ints, Floats | float]) -> None:
        """Add constraints: right-hand sides, and entries as (row, column, value) with rows counted from 0."""
        first = sum(map(len, self._right))
        self._right.append(right)
        for row, column, value in entries:
            self._entries.append((first + row, column, np.broadcast_to(value, row.shape)))

    def _matrix(self) -> Any:
        from scipy.sparse import csc_array

        rows, columns, values = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        return csc_array((values, (rows, columns)), shape=(len(self.right), len(self.gain)))

    def _add_jobs(self) -> None:
        """So many jobs of each kind; where it has a single option, that is the variable's bound."""
        options = self.options
        count = options.num_jobs.astype(np.float64)
        self._add_columns(options.gain, count, np.ones(options.number))
        several = np.bincount(options.kind, minlength=len(self.kinds.num_jobs)) > 1
        column = np.flatnonzero(several[options.kind])
        row = (np.cumsum(several) - 1)[options.kind[column]]
        self._add_rows(self.kinds.num_jobs[several].astype(np.float64), (row, column, 1.0))

    def _add_violations(self, instance: Instance, largest: Floats) -> tuple[Ints, Ints]:
        """What runs, less what is above, is at most what is free; return the variables of each row, -1 for none."""
        options, (slot, resource) = self.options, self._tight
        weights, is_whole = instance.violation_weights[resource], self._room.is_whole[resource].astype(np.float64)
        above = self._add_columns(-weights, largest, is_whole)
        discount = self._room.discount[slot, resource]
        cheap = np.flatnonzero((discount > 0) & (largest > 0))
        first_unit = np.full(len(slot), -1)
        first_unit[cheap] = self._add_columns(
            -(weights * (1 - discount))[cheap], np.ones(len(cheap)), np.ones(len(cheap))
        )
        rows, values = self._row[options.entry_slot], options.requests[options.entry_option]
        entry, kind = np.nonzero((rows >= 0) & (values > 0))
        self._add_rows(
            self._room.free[slot, resource],
            (rows[entry, kind], options.entry_option[entry], values[entry, kind]),
            (np.arange(len(slot)), above, -1.0),
            (cheap, first_unit[cheap], -1.0),
        )
        return above, first_unit

    def _largest_violations(self, instance: Instance) -> Floats:
        """Return how large the violation of each row can be that comes of a capacity that has fallen."""
        level = self._room.level
        longest = int(instance.duration.max(initial=1))
        peak = [level[max(0, slot - longest + 1) : slot + 1].max(axis=0) for slot in range(len(level))]
        largest: Floats = np.maximum(np.array(peak) - np.maximum(level, instance.held), 0.0)
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
        columns = self._add_columns(np.zeros(number), np.ones(number), np.ones(number))
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


#: Passes over all jobs; two or three are usual.
MOST_PASSES = 10


def improved(instance: Instance, starts: Ints | None = None) -> Ints:
    """Return a schedule that is no worse, and to which nothing can be added.

    Of starts that bring the same the earliest is taken. A start that is not allowed, because the job does not fit, is
    replaced.

    Parameters
    ----------
    instance : Instance
        What is to be planned.
    starts : numpy.ndarray of int64, shape (num_jobs,), optional
        A schedule to begin with; if left out, jobs are put into an empty one, those that bring most first.

    Returns
    -------
    numpy.ndarray of int64, shape (num_jobs,)
        The schedule.
    """
    timetable = _Timetable(instance)
    if starts is None:
        starts = np.full(instance.num_jobs, -1, dtype=np.int64)
    missing = np.flatnonzero(starts < 0)
    placed = np.flatnonzero(starts >= 0)
    order = [
        *placed[np.argsort(starts[placed], kind="stable")].tolist(),
        *missing[np.argsort(-instance.worth[missing], kind="stable")].tolist(),
    ]
    for job in order:
        start = int(starts[job])
        if start >= 0 and timetable.allows(job)[start - instance.first[job]]:
            timetable.put(job, start)
    for _ in range(MOST_PASSES):
        if not sum(timetable.move(job) for job in order):
            break
    return timetable.starts


class _Timetable:
    """Which jobs are started when, and what they hold.

    Parameters
    ----------
    instance : Instance
        What is to be planned.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._limit = instance.limit
        self._used = instance.held.copy()
        self._begun = np.zeros(self._used.shape, dtype=np.int64)  # how many that hold a resource begin in a slot
        self.starts = np.full(instance.num_jobs, -1, dtype=np.int64)

    def put(self, job: int, start: int, sign: int = 1) -> None:
        """Put a job in, or take it out."""
        requests = self._instance.requests[job]
        self._used[start : start + self._instance.duration[job]] += sign * requests
        self._begun[start] += sign * (requests > 0)
        self.starts[job] = start if sign > 0 else -1

    def move(self, job: int) -> bool:
        """Take a job out, put it in where it brings most, and tell whether that has changed anything."""
        before = int(self.starts[job])
        if before >= 0:
            self.put(job, before, -1)
        gains = np.where(self.allows(job), self._gains(job), -np.inf)
        best = int(gains.argmax())
        if gains[best] > 0:
            self.put(job, int(self._instance.first[job]) + best)
        return before != int(self.starts[job])

    def allows(self, job: int) -> NDArray[np.bool_]:
        """Tell for each slot of a job's window whether it may begin there."""
        instance = self._instance
        reach, width = self._reach(job)
        if instance.overcommit:
            return np.ones(width, dtype=bool)
        requests = instance.requests[job]
        over = (self._used[reach] + requests > self._limit[reach]) & (requests > 0)
        spoils = (over & (self._begun[reach] > 0)).any(axis=1)
        allowed: NDArray[np.bool_] = ~over[:width].any(axis=1) & (self._over_runs(job, spoils.astype(np.float64)) == 0)
        return allowed

    def _gains(self, job: int) -> Floats:
        """Return for each slot of a job's window what it adds if it begins there."""
        instance = self._instance
        reach, width = self._reach(job)
        used, limit, capacity = self._used[reach], self._limit[reach], instance.capacity[reach]
        after = used + instance.requests[job]
        more = np.where(after > limit, after - np.where(used > limit, used, capacity), 0.0)
        delays = instance.delay_weight * np.arange(width)
        gains: Floats = instance.worth[job] - delays - self._over_runs(job, more @ instance.violation_weights)
        return gains

    def _over_runs(self, job: int, values: Floats) -> Floats:
        """Return the sum of values over the slots in which a job runs, for each slot of its window."""
        _, width = self._reach(job)
        sums = np.concatenate([[0.0], np.cumsum(values)])
        begins = np.arange(width)
        over: Floats = sums[np.minimum(begins + self._instance.duration[job], len(values))] - sums[begins]
        return over

    def _reach(self, job: int) -> tuple[slice, int]:
        """Return the slots in which a job may run, and the number of those in which it may begin."""
        instance = self._instance
        first, last = int(instance.first[job]), int(instance.last[job])
        return slice(first, last + int(instance.duration[job])), last - first + 1
