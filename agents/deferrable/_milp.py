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

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable._instance import Instance, value_of
from desim.agents.deferrable._options import Kinds, Options, Room
from desim.agents.deferrable._solver_output import no_solver_output
from desim.exceptions import InvalidConfiguration

__all__ = ["Solution", "check_limits", "solve"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
