"""Predictors of run times: how long jobs are expected to run, which backfilling plans with.

A cluster asks its predictor for the run time of each job at submission, and caps the answer by the requested time. It
reports every job that has ended, so that a predictor can learn. If a job runs longer than predicted, the predictor
corrects the prediction. Only plans use predictions: a job is killed by its requested time, and it starts before an
advance reservation only if it ends in time by its request.

An agent with an attribute ``run_time_predictor``, a name or an object, brings the predictor of its runs, so that a
comparison pairs agents with different predictors.

Backfilling with such predictions, and with shortest jobs first, is EASY++ of Tsafrir, Etsion and Feitelson,
"Backfilling using system-generated predictions rather than user runtime estimates", IEEE TPDS 18(6), 2007.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from numbers import Real
from typing import Any, Protocol, Self

import numpy as np

from desim.checks import check_choice, check_int
from desim.exceptions import InvalidConfiguration
from desim.forks import FlatDict
from desim.problems.batch.job import Job

__all__ = [
    "PREDICTORS",
    "Fitted",
    "Oracle",
    "Predictions",
    "Request",
    "RunTimePredictor",
    "UserAverage",
    "as_predictor",
    "corrected_end",
    "describe_predictor",
    "name_of",
]

OVERRUN_PATIENCE = 60.0
"""Seconds that a job is expected to continue when it has just passed its requested time."""

FACTOR = 1.5
"""Factor by which a job is expected to exceed the time that it has run when its prediction expires."""


def corrected_end(expected: float, now: float) -> float:
    """Return the expected end of a job that may have exceeded its requested time.

    A job that exceeds its requested time is expected to end 1 minute later. Whenever it exceeds the expected end as
    well, its overrun is expected to double: to 1, 2, 4, 8, ... minutes in all. The expectation therefore does not
    depend on when this function is called.

    Parameters
    ----------
    expected : float
        End by the requested time, in seconds.
    now : float
        Current time in seconds.

    Returns
    -------
    float
        Expected end in seconds, always after `now`.
    """
    if expected > now:
        return expected
    more = OVERRUN_PATIENCE
    while expected + more <= now:
        more *= 2
    return expected + more


class RunTimePredictor(Protocol):
    """What a cluster asks a predictor.

    Jobs are given as agents know them: their run times are their requested times, unless the predictor has a true
    attribute ``foresight``. An attribute ``name`` names it in descriptions.
    """

    def predict(self, job: Job) -> float:
        """Return how long a job is expected to run, in seconds, at its submission; once for each of its sizes."""

    def learn(self, job: Job, ran: float, outcome: str) -> None:
        """Update the predictor with the run time of a job that has left the cluster.

        Parameters
        ----------
        job : Job
            The job, in the size in which it ran.
        ran : float
            Its useful execution time in seconds; of a lost job, the duration of its last execution.
        outcome : str
            ``"completed"``, ``"killed"`` or ``"lost"``.
        """

    def correct(self, job: Job, elapsed: float) -> float:
        """Return how long a job is expected to run in all, which has run longer than expected.

        Parameters
        ----------
        job : Job
            The job, in the size in which it runs.
        elapsed : float
            Seconds that it has run so far.

        Returns
        -------
        float
            A number of seconds above `elapsed`. The cluster caps it by the requested time until that has passed.
        """


class Request:
    """The requested time of each job: the default."""

    name = "request"

    def predict(self, job: Job) -> float:
        """Return the requested time."""
        return job.requested_time

    def learn(self, job: Job, ran: float, outcome: str) -> None:
        """Do nothing: requested times do not depend on earlier jobs."""

    def correct(self, job: Job, elapsed: float) -> float:
        """Return the requested time or, if that has passed, 1, 2, 4, ... minutes more; see `corrected_end`."""
        return corrected_end(job.requested_time, elapsed)


class UserAverage(Request):
    """Mean run time of the last jobs of the same user, as in EASY++.

    Jobs of a user of whom too few have ended, and jobs without a user, are predicted by their requests. A prediction
    that expires becomes 1.5 times the time that the job has run, at least one minute more, where EASY++ adds fixed
    amounts.

    Parameters
    ----------
    last : int
        Number of jobs in the mean, at least 1.
    """

    def __init__(self, last: int = 2) -> None:
        self.last = check_int("last", last, least=1)
        self.name = "user-average" if last == 2 else f"user-average:{last}"
        self._ran: dict[int, deque[float]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy that learns for itself."""
        other = copy(self)
        other._ran = {user: ran.copy() for user, ran in self._ran.items()}
        return other

    def predict(self, job: Job) -> float:
        """Return the mean, at least 1 s."""
        ran = self._ran.get(job.user_id, ())
        return max(sum(ran) / self.last, 1.0) if len(ran) == self.last else job.requested_time

    def learn(self, job: Job, ran: float, outcome: str) -> None:
        """Remember the run time of a job that has completed or was killed."""
        if job.user_id >= 0 and outcome != "lost":
            self._ran.setdefault(job.user_id, deque(maxlen=self.last)).append(ran)

    def correct(self, job: Job, elapsed: float) -> float:
        """Return 1.5 times the elapsed time, at least one minute more; after the requested time, as by requests."""
        if elapsed >= job.requested_time:
            return super().correct(job, elapsed)
        return max(FACTOR * elapsed, elapsed + OVERRUN_PATIENCE)


class Fitted(UserAverage):
    """A custom regression, fitted again as jobs end; the mean of the user's last two until the first fit.

    Parameters
    ----------
    model : object
        Regression with ``fit(columns, times)`` and ``predict(columns)``, such as one of scikit-learn. It is copied.
    columns : callable, optional
        Returns the numbers that describe a job. Default: requested time, requested cores, hour of the day of its
        submission, and the user's mean.
    every : int
        Number of jobs that end between fits.
    most : int
        Number of the latest jobs that a fit uses.
    """

    def __init__(
        self,
        model: Any,
        columns: Callable[[Job], Sequence[float]] | None = None,
        *,
        every: int = 200,
        most: int = 5_000,
    ) -> None:
        super().__init__()
        self.name = f"fitted:{type(model).__name__}"
        if not (hasattr(model, "fit") and hasattr(model, "predict")):
            raise InvalidConfiguration(f"model: got {model!r}, expected an object with methods fit and predict")
        self.model, self.columns = model, columns
        self.every, self.most = check_int("every", every, least=1), check_int("most", most, least=1)
        self._seen: dict[tuple[Any, ...], Sequence[float]] = {}  # what described each job at its submission
        self._rows: deque[tuple[Sequence[float], float]] = deque(maxlen=most)
        self._ended = 0
        self._is_fitted = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy that shares the fitted model, which is never fitted again: each fit makes a new one."""
        other = super().__deepcopy__(memo)
        other._seen, other._rows = dict(self._seen), self._rows.copy()
        return other

    def predict(self, job: Job) -> float:
        """Return the model's prediction, at least 1 s."""
        usual = super().predict(job)
        if self.columns is None:
            hour = job.submission_time % 86_400.0 / 3_600.0
            row: Sequence[float] = (job.requested_time, job.requested_cores, hour, usual)
        else:
            row = self.columns(job)
        self._seen.setdefault(job[:2], row)  # an id may recur, but hardly at the same time
        return max(float(self.model.predict(np.array([row]))[0]), 1.0) if self._is_fitted else usual

    def learn(self, job: Job, ran: float, outcome: str) -> None:
        """Remember the run time, and fit the model again when enough jobs have ended."""
        super().learn(job, ran, outcome)
        row = self._seen.pop(job[:2], None)
        if row is None or outcome == "lost":
            return
        self._rows.append((row, ran))
        self._ended += 1
        if self._ended % self.every == 0:
            rows, times = zip(*self._rows, strict=True)
            self.model = deepcopy(self.model)
            self.model.fit(np.array(rows), np.array(times))
            self._is_fitted = True


class Oracle(Request):
    """The actual run time of each job, which no real predictor knows: the best that predictions can do.

    On nodes with different speeds it knows the run time where the job starts only once a prediction has expired.
    """

    name = "oracle"
    foresight = True

    def predict(self, job: Job) -> float:
        """Return the run time."""
        return job.run_time

    def correct(self, job: Job, elapsed: float) -> float:
        """Return the run time, or more if that has passed."""
        return corrected_end(job.run_time, elapsed)


PREDICTORS: dict[str, type[RunTimePredictor]] = {"request": Request, "user-average": UserAverage, "oracle": Oracle}
"""Predictors by name."""


def as_predictor(predictor: Any) -> RunTimePredictor:
    """Return the predictor given by a name or an object.

    Parameters
    ----------
    predictor : str or object
        One of `PREDICTORS`, ``user-average:N`` for the mean of the last N, or an object like a `RunTimePredictor`.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown or the object lacks a method.
    """
    if isinstance(predictor, str):
        kind, _, last = predictor.partition(":")
        if kind == "user-average" and last.isdecimal():
            return UserAverage(int(last))
        return PREDICTORS[check_choice("predictor", predictor, tuple(PREDICTORS))]()
    lacking = [name for name in ("predict", "learn", "correct") if not callable(getattr(predictor, name, None))]
    if lacking or isinstance(predictor, type):
        raise InvalidConfiguration(
            f"predictor: got {predictor!r}, expected one of {', '.join(PREDICTORS)} or an object with the methods "
            "predict(job), learn(job, ran, outcome) and correct(job, elapsed)"
        )
    found: RunTimePredictor = predictor
    return found


class Predictions:
    """Predicted run times of the jobs in the system during one run, by a copy of a predictor.

    Parameters
    ----------
    predictor : RunTimePredictor
        Predictor; it is not changed.

    Attributes
    ----------
    times : dict of int to tuple of float
        Predicted seconds of each job in its sizes, by row; of the size in which it runs once it has started.
    """

    def __init__(self, predictor: RunTimePredictor) -> None:
        self.predictor = deepcopy(predictor)
        self.times: dict[int, tuple[float, ...]] = FlatDict()
        self._corrections: dict[int, int] = {}  # of those with any

    def submit(self, job: Job, row: int) -> None:
        """Predict the run time of a job in each of its sizes."""
        sizes = job.in_all_sizes()
        times = [self._checked(self.predictor.predict(self._shown(size)), size, "predict") for size in sizes]
        capped = (min(time, size.requested_time) for time, size in zip(times, sizes, strict=True))
        self.times[row] = tuple(capped)

    def mold(self, row: int, size: int) -> None:
        """Keep the prediction for the size in which a job starts."""
        self.times[row] = (self.times[row][size],)

    def of(self, row: int) -> float:
        """Return the expected run time of a job in the system, in seconds."""
        return self.times[row][0]

    def known(self, job: Job, row: int) -> Job:
        """Return a job as agents know it, with its expected run time as run time, in each size."""
        times, known = self.times[row], job.known()
        sizes = zip(known.sizes, times[1:], strict=False)  # a job that starts again may have fewer sizes left
        return known._replace(run_time=times[0], sizes=tuple(size._replace(run_time=time) for size, time in sizes))

    def correct(self, job: Job, row: int, elapsed: float) -> float:
        """Return how long a job is expected to run that has run longer than expected."""
        length = self._checked(self.predictor.correct(self._shown(job), elapsed), job, "correct", elapsed)
        if elapsed < job.requested_time:
            length = min(length, job.requested_time)
        self._corrections[row] = self._corrections.get(row, 0) + 1
        return length

    def leave(self, record: tuple[Any, ...]) -> tuple[Any, ...]:
        """Update the predictor with a record of a job; return it with prediction and corrections added."""
        job, row, ran, outcome, useful = record[0], record[1], record[4], record[6], record[9]
        if outcome == "rejected":
            return *record, None, None
        if outcome in ("completed", "killed", "lost"):
            self.predictor.learn(self._shown(job), ran if useful is None else useful, outcome)
        return *record, self.times.pop(row)[0], self._corrections.pop(row, 0)

    def _shown(self, job: Job) -> Job:
        """Return what the predictor may see of a job."""
        return job if getattr(self.predictor, "foresight", False) else job.known()

    def _checked(self, time: Any, job: Job, what: str, above: float | None = None) -> float:
        """Return a predicted time as a float, or raise InvalidConfiguration."""
        is_number = isinstance(time, Real) and not isinstance(time, bool)
        if not is_number or not (0.0 <= time < math.inf if above is None else above < time < math.inf):
            bound = "of at least 0" if above is None else f"above the elapsed {above:.10g}"
            raise InvalidConfiguration(
                f"predictor {name_of(self.predictor)}: {what} of job {job.job_id}: got {time!r}, expected a number of "
                f"seconds {bound}"
            )
        return float(time)


def name_of(predictor: RunTimePredictor) -> str:
    """Return the name of a predictor for names of agents, descriptions and messages."""
    return str(getattr(predictor, "name", type(predictor).__name__))


def describe_predictor(predictor: RunTimePredictor) -> dict[str, Any]:
    """Return the entries of a predictor in the description of a run; none for requested times."""
    if type(predictor) is Request:
        return {}
    foresight = {"foresight": True} if getattr(predictor, "foresight", False) else {}
    return {"predictor": name_of(predictor)} | foresight
