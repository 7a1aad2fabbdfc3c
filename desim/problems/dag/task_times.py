"""How long the single tasks of a stage take, as measured, by wave and by number of executors."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag._checks import Floats, first_wrong, numbers_of

__all__ = ["TaskTimes", "Wave"]

#: What the executor of a task did before it: nothing of the job, another stage of it, the same stage.
Wave = Literal["fresh", "first", "rest"]

# What stands in for a wave without durations, the nearest first, and whether the warm-up has to be added to it. That
# fresh durations come before those of the rest where first ones lack is Decima's choice.
_SUBSTITUTES: dict[str, tuple[tuple[str, bool], ...]] = {
    "fresh": (("fresh", False), ("first_warm", True), ("rest", True)),
    "first": (("first_warm", False), ("fresh", False), ("rest", False)),
    "rest": (("rest", False), ("first_warm", False), ("fresh", False)),
}

#: Durations to draw from, and the seconds to add.
_Pool = tuple[Floats, float]


class TaskTimes:
    """Measured durations of the tasks of one stage; it does not change.

    A stage was run several times, each time with another number of executors. The first task that an executor runs of
    a stage takes longer than the later ones, and longest if the executor is new to the whole job.

    Parameters
    ----------
    executors : sequence of int
        Numbers of executors in ascending order, one for each run.
    fresh : sequence of array_like
        For each run, seconds of the tasks on executors that were new to the job. May be empty.
    first : sequence of array_like
        For each run, seconds of the first task of each executor; the values of ``fresh`` are among them.
    rest : sequence of array_like
        For each run, seconds of all later tasks.
    warm_up : float
        Seconds that an executor needs to get ready for a job: what a task on a new executor takes longer where no
        such task was measured.
    reference_speed : float
        Speed of the executors in the measurement: on one of speed v a task takes ``reference_speed / v`` times as long.

    Attributes
    ----------
    executors : tuple of int
        As given.
    fresh, first, rest : tuple of numpy.ndarray
        As given, read-only.
    first_warm : tuple of numpy.ndarray
        ``first`` without the values of ``fresh``, each as often as it is there.
    warm_up, reference_speed : float
        As given.

    Raises
    ------
    WorkloadError
        If there are no values at all, one is negative or not finite, a value of ``fresh`` is missing from ``first``,
        or the numbers of executors are not whole, ascending and above 0; the message names the wave and the run.

    Notes
    -----
    Decima's simulator draws task durations in this way (H. Mao et al., "Learning scheduling algorithms for data
    processing clusters", SIGCOMM 2019).

    Examples
    --------
    >>> times = TaskTimes([2, 10], fresh=[[3.0], []], first=[[3.0, 2.0], [4.0]], rest=[[1.0], []])
    >>> times.mean("rest", 2), times.mean("fresh", 10), times.mean("rest", 4)
    (1.0, 5.0, 1.75)
    """

    def __init__(
        self,
        executors: Sequence[int],
        fresh: Sequence[ArrayLike],
        first: Sequence[ArrayLike],
        rest: Sequence[ArrayLike],
        *,
        warm_up: float = 1.0,
        reference_speed: float = 1.0,
    ) -> None:
        self.executors = _counts(executors)
        self.fresh = self._lists("fresh", fresh)
        self.first = self._lists("first", first)
        self.rest = self._lists("rest", rest)
        if not any(map(len, (*self.first, *self.rest))):
            raise WorkloadError("task times: there are no durations at all")
        if not 0 <= warm_up < np.inf:
            raise WorkloadError(f"task times: warm_up is {warm_up!r}, want a finite number of at least 0")
        if not 0 < reference_speed < np.inf:
            raise WorkloadError(f"task times: reference_speed is {reference_speed!r}, want a finite number above 0")
        self.warm_up = float(warm_up)
        self.reference_speed = float(reference_speed)
        self.first_warm = tuple(map(_without, self.executors, self.first, self.fresh))
        self._pools = {wave: self._pools_of(substitutes) for wave, substitutes in _SUBSTITUTES.items()}
        # Separate lists: a draw looks up one number, not a pair inside a list of pairs.
        self._values = {wave: [values for values, _ in pools] for wave, pools in self._pools.items()}
        self._added = {wave: [seconds for _, seconds in pools] for wave, pools in self._pools.items()}

    def _lists(self, wave: str, lists: Sequence[ArrayLike]) -> tuple[Floats, ...]:
        if len(lists) != len(self.executors):
            raise WorkloadError(f"task times: {len(lists)} lists of {wave} for {len(self.executors)} runs")
        result = []
        for count, values in zip(self.executors, lists, strict=True):
            what = f"task times: {wave} with {count} executors"
            array = numbers_of(what, values, WorkloadError)
            if array.ndim != 1:
                raise WorkloadError(f"{what} has shape {array.shape}, want a list of numbers")
            wrong = first_wrong(~((array >= 0) & (array < np.inf)))
            if wrong is not None:
                raise WorkloadError(f"{what}: {array[wrong].item()!r}, want finite numbers of at least 0")
            result.append(array)
        return tuple(result)

    def _pools_of(self, substitutes: tuple[tuple[str, bool], ...]) -> list[_Pool]:
        """Return for each run what is drawn for a wave."""
        found: list[_Pool | None] = []
        for run in range(len(self.executors)):
            present = ((getattr(self, name)[run], warm) for name, warm in substitutes)
            found.append(
                next(((values, self.warm_up if warm else 0.0) for values, warm in present if len(values)), None)
            )
        return self._from_nearest(found)

    def _from_nearest(self, found: list[_Pool | None]) -> list[_Pool]:
        """Return the same, where runs without durations take those of the nearest run."""
        known = [(count, pool) for count, pool in zip(self.executors, found, strict=True) if pool is not None]
        result = []
        for count in self.executors:
            distances = [abs(count - other) for other, _ in known]
            result.append(known[distances.index(min(distances))][1])
        return result

    def draw(self, rng: Generator, wave: Wave, num_executors: float) -> float:
        """Draw the duration of a task.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        wave : {"fresh", "first", "rest"}
            Whether the executor is new to the job, new to the stage but not to the job, or has just run another task of
            the stage. A wave without durations is replaced within its run: fresh by first plus warm-up, then by rest
            plus warm-up; first by fresh, then by rest; rest by first, then by fresh. A run without any durations is
            replaced by the nearest one, of two the smaller.
        num_executors : float
            Executors that work on the job. Between two measured numbers one of them is picked at random, the nearer
            with the greater chance, linearly; outside them the nearest is taken.

        Returns
        -------
        float
            Seconds at the reference speed.

        Raises
        ------
        InvalidConfiguration
            If the wave is none of the three.
        """
        executors = self.executors
        run = bisect_left(executors, num_executors)
        if run == len(executors):
            run -= 1
        elif run and executors[run] != num_executors:
            below = executors[run - 1]
            if rng.random() * (executors[run] - below) >= num_executors - below:
                run -= 1
        try:
            values = self._values[wave][run]
        except KeyError:
            _refuse(wave)
        # Faster than rng.integers or rng.choice; the product stays below the length, rounded as it is.
        return values.item(int(rng.random() * len(values))) + self._added[wave][run]

    def mean(self, wave: Wave | None = None, num_executors: float | None = None) -> float:
        """Return the mean duration of a task.

        Parameters
        ----------
        wave : {"fresh", "first", "rest"}, optional
            As for :meth:`draw`; all tasks of the runs, whatever their wave, if left out.
        num_executors : float, optional
            As for :meth:`draw`; all runs, each task counted once, if left out.

        Returns
        -------
        float
            Seconds at the reference speed. With both arguments it is the expectation of :meth:`draw`.

        Raises
        ------
        InvalidConfiguration
            If the wave is none of the three.
        """
        if wave not in (None, *self._pools):
            _refuse(wave)
        if wave is None:
            lists = [np.concatenate(pair) for pair in zip(self.first, self.rest, strict=True)]
            pools = self._from_nearest([(values, 0.0) if len(values) else None for values in lists])
        else:
            lists = list(self.first_warm if wave == "first" else getattr(self, wave))
            pools = self._pools[wave]
        if num_executors is not None:
            means = [float(values.mean()) + seconds for values, seconds in pools]
            return float(np.interp(num_executors, self.executors, means))
        # Over all runs, what one run borrows from another or from another wave counts only if there is nothing else.
        measured = [(values, 0.0) for values in lists if len(values)] or pools
        total = sum(float(values.sum()) + seconds * len(values) for values, seconds in measured)
        return total / sum(len(values) for values, _ in measured)

    def __repr__(self) -> str:
        """Say how many durations there are, for which numbers of executors."""
        count = sum(map(len, (*self.first, *self.rest)))
        return f"<TaskTimes: {count} durations with {self.executors[0]} to {self.executors[-1]} executors>"


def _counts(executors: Sequence[int]) -> tuple[int, ...]:
    counts = tuple(executors)
    whole = all(isinstance(count, int | np.integer) and not isinstance(count, bool) for count in counts)
    if not counts or not whole or counts[0] < 1 or any(a >= b for a, b in pairwise(counts)):
        raise WorkloadError(f"task times: executors are {counts!r}, want whole numbers above 0 in ascending order")
    return tuple(map(int, counts))


def _without(count: int, first: Floats, fresh: Floats) -> Floats:
    """Return the first durations that are not fresh ones, in their order."""
    if not len(fresh):
        return first
    left = Counter(fresh.tolist())
    kept = []
    for value in first.tolist():
        if left[value]:
            left[value] -= 1
        else:
            kept.append(value)
    missing = next((value for value, times in left.items() if times), None)
    if missing is not None:
        raise WorkloadError(
            f"task times: with {count} executors the duration {missing!r} is more often in fresh "
            "than in first, which holds all of them"
        )
    array = np.array(kept, dtype=np.float64)
    array.flags.writeable = False
    return array


def _refuse(wave: object) -> NoReturn:
    raise InvalidConfiguration(f"the wave of a task is {wave!r}, want 'fresh', 'first' or 'rest'")
