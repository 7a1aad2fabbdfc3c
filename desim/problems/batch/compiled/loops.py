"""Runs in compiled loops: the arrays that a loop takes are made of a workload, and what it finds becomes an outcome.

Plain runs, see :mod:`~desim.problems.batch.compiled.plain`, have quick loops; the loop of
:mod:`~desim.problems.batch.compiled.kernel` simulates all others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.compiled.records import Outcome
from desim.problems.batch.predictors import as_predictor

if TYPE_CHECKING:
    from desim.problems.batch.cluster import BatchCluster
    from desim.problems.batch.workload import Workload

__all__ = ["CompiledRule", "Unfit", "loop_of", "simulated"]

EVENTS, STEPS = 1_024, 1 << 20
"""Number of events, and of the shorter steps of plain runs, that are simulated at a time."""


class CompiledRule(NamedTuple):
    """What a compiled agent does.

    Attributes
    ----------
    kind : {"strict", "simple", "easy", "conservative"}
        Which jobs start: those in order until one does not fit, or those of a kind of backfilling.
    order : object
        Priority order: its ``name``, ``expected`` (whether lengths are those that the predictor expects), and a method
        ``scores(queue, time)``. If the scores change, or lengths are known on arrival only, the kernel has a formula by
        the name, and a method ``term(queue)`` returns the part of it that depends on neither lengths nor time.
    backfill : object or None
        Order in which jobs overtake, if it is another one.
    """

    kind: Literal["strict", "simple", "easy", "conservative"]
    order: Any
    backfill: Any = None

    @property
    def orders(self) -> list[Any]:
        """The one or two orders."""
        return [self.order] if self.backfill is None else [self.order, self.backfill]


class Unfit(Exception):
    """The run needs SimPy's kernel."""


class _Columns:
    """All jobs of a workload with the columns of a queue, from which a priority order computes scores."""

    def __init__(self, workload: Workload, expected: NDArray[np.float64]) -> None:
        self.submission_time = workload["submission_time"]
        self.requested_time = workload["requested_time"]
        self.requested_cores = workload["requested_cores"]
        self.expected_time = expected

    def __len__(self) -> int:
        return len(self.submission_time)


CHANGING = ("wfp3", "unicep", "multifactor")
"""Names of the orders whose scores depend on the time."""


def loop_of(cluster: BatchCluster, rule: CompiledRule, until: float = math.inf) -> str:
    """Return the name of the loop that simulates a run, as ``module.function``, without a look at its jobs.

    Parameters
    ----------
    cluster : BatchCluster
        Configuration of the cluster.
    rule : CompiledRule
        What the agent does.
    until : float
        End of the run in seconds.
    """
    is_plain = cluster.cycle == "instant" and until == math.inf and rule.kind != "conservative"
    if not is_plain or _predictor(cluster).name not in {"request", "oracle"}:
        return "kernel.run"
    if any(order.name.removesuffix("-expected") in CHANGING for order in rule.orders):
        return "kernel.run"
    return "plain.first_come" if (rule.kind, rule.order.name) == ("strict", "fcfs") else "plain.in_order"


def simulated(cluster: BatchCluster, workload: Workload, rule: CompiledRule, until: float) -> Outcome:
    """Return the outcome of a run.

    Parameters
    ----------
    cluster : BatchCluster
        Configuration of the cluster.
    workload : Workload
        Its jobs.
    rule : CompiledRule
        What the agent does.
    until : float
        End of the run in seconds.

    Raises
    ------
    Unfit
        If the run needs SimPy's kernel.
    """
    cores, requested, run_time = (workload[name] for name in ("requested_cores", "requested_time", "run_time"))
    is_too_wide = len(cores) > 0 and cores.max() > cluster.num_cores
    if is_too_wide and cluster.too_wide == "error":
        raise Unfit("jobs that are too wide")
    is_plain = not is_too_wide and loop_of(cluster, rule, until) != "kernel.run"
    if is_plain and not (cluster.enforce_time_limit and cluster.over_time_limit == 0):
        is_plain = not (run_time > requested).any()
    return _plain(cluster, workload, rule) if is_plain else _event_by_event(cluster, workload, rule, until)


def _plain(cluster: BatchCluster, workload: Workload, rule: CompiledRule) -> Outcome:
    """Return the outcome of a plain run."""
    from desim.problems.batch.compiled import plain

    columns: list[Any] = [
        workload[name] for name in ("submission_time", "requested_cores", "requested_time", "run_time")
    ]
    submission, _, requested, run_time = columns
    duration = _frozen(np.minimum(run_time, requested))
    expected = requested if _predictor(cluster).name == "request" else duration
    count = len(submission)
    start, started, ended_before, ended = np.empty(count), *(np.empty(count, np.int64) for _ in range(3))
    running, ends = np.empty((2, most := min(count, cluster.num_cores) + 1), np.int64), np.empty((2, most))
    w, f = np.zeros(11, np.int64), np.zeros(3)
    w[3] = cluster.num_cores
    if loop_of(cluster, rule) == "plain.first_come":
        started = np.arange(count)
        state: list[Any] = [w, f, *columns, start, ended_before, ended, ends[0], running[0], STEPS]
        while not plain.first_come(*state):
            pass  # between two calls, Python hears signals
    else:
        jobs = _Columns(workload, expected)
        scores = [
            submission if order.name == "fcfs" else _frozen(np.asarray(order.scores(jobs, 0.0), np.float64))
            for order in rule.orders
        ]
        kind = {"strict": plain.STRICT, "simple": plain.SIMPLE, "easy": plain.EASY}[rule.kind]
        queues = np.empty((4, count + plain.BLOCK), np.int64)
        queues[1] = queues[3] = plain.GONE
        state = [kind, len(scores) > 1, w, f, *columns, expected, scores[0], scores[-1]]
        lengths = np.empty((2, count + plain.BLOCK))
        state += [start, started, ended_before, ended, queues, lengths, running, ends, STEPS]
        while not plain.in_order(*state):
            pass
    status = 1 + (run_time > requested)  # killed
    return Outcome(
        workload=workload,
        num_cores=cluster.num_cores,
        end=float(f[0]),
        start=start,
        duration=duration,
        predicted=expected,
        status=status,
        corrections=np.zeros(count, np.int64),
        started=started,
        ended_before=ended_before,
        ended=ended,
        recorded=ended,
    )


def _predictor(cluster: BatchCluster) -> Any:
    """Return the predictor, which is one of ours and has a name."""
    return as_predictor(cluster.predictor)


def _frozen(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values that cannot be changed, like columns: otherwise numba compiles a loop for either."""
    values.setflags(write=False)
    return values


def _event_by_event(cluster: BatchCluster, workload: Workload, rule: CompiledRule, until: float) -> Outcome:
    """Return the outcome of any run."""
    from desim.problems.batch.compiled import kernel as k

    count, predictor = len(workload), _predictor(cluster)
    requested, run_time = workload["requested_time"], workload["run_time"]
    jobs, rows = np.empty((k.NUM_FIELDS, count)), np.empty((k.NUM_ROWS, count), np.int64)
    jobs[k.SUBMISSION], jobs[k.REQUESTED_TIME], jobs[k.RUN_TIME] = workload["submission_time"], requested, run_time
    rows[k.CORES] = workload["requested_cores"]
    limit = np.where(cluster.enforce_time_limit & (run_time > requested), requested + cluster.over_time_limit, np.inf)
    jobs[k.DURATION] = np.minimum(run_time, limit)
    jobs[k.PREDICTED] = np.minimum(run_time, requested) if predictor.name == "oracle" else requested
    jobs[k.START] = np.nan
    for field in (k.USER, k.STATUS, k.CORRECTIONS, k.HAS_RESERVATION, k.IS_RUNNING, k.NUM_RAN):
        rows[field] = 0
    w, f = np.zeros(k.NUM_WHOLE, np.int64), np.zeros(k.NUM_TIMES)
    w[k.PREDICTOR] = {"request": k.REQUESTED, "oracle": k.ORACLE}.get(predictor.name, k.USER_AVERAGE)
    if w[k.PREDICTOR] == k.USER_AVERAGE:
        w[k.LAST] = predictor.last
        users, codes = np.unique(workload["user_id"], return_inverse=True)
        rows[k.USER] = np.where(users[codes] < 0, -1, codes)
    columns = _Columns(workload, jobs[k.PREDICTED])
    for second, order in enumerate(rule.orders):
        _set_order(order, columns, second, w, jobs)
    if multifactor := [order for order in rule.orders if order.name == "multifactor"]:
        _set_multifactor(multifactor, workload["user_id"], (w, f, jobs, rows))
    kinds = {"simple": k.SIMPLE, "easy": k.EASY, "conservative": k.CONSERVATIVE}
    w[k.KIND] = kinds.get(rule.kind, k.STRICT_FCFS if rule.order.name == "fcfs" else k.STRICT)
    cycles = {"instant": k.INSTANT, "arrival": k.ARRIVAL, "event": k.EVENT}
    w[k.CYCLE] = cycles.get(str(cluster.cycle), k.PERIODIC)
    w[k.CORES_IN_ALL] = w[k.FREE] = cluster.num_cores
    w[k.HAS_SECOND], w[k.HEARS] = rule.backfill is not None, 1
    w[k.IS_FIXED] = w[k.FORMULA] < k.WFP3
    f[k.PERIOD] = 0.0 if isinstance(cluster.cycle, str) else cluster.cycle
    f[k.UNTIL] = until
    heap, profile = 4 * count + 80, 2 * count + 64
    state = (w, f, jobs, rows, np.empty((4, heap)), np.empty((8, heap), np.int64), np.zeros(4, np.int64))
    memory = (np.empty(profile), np.empty(profile, np.int64))
    while not k.run(*state, *memory, EVENTS):  # between two calls, Python hears signals
        pass
    if w[k.IS_FULL] or (until == math.inf and (rows[k.STATUS] <= 0).any()):
        raise Unfit("a run that stalls")
    is_cut = w[k.NUM_ENDED] + (rows[k.STATUS] == k.REJECTED).sum() < count
    end: float = until if is_cut else float(f[k.NOW])
    return Outcome(
        workload=workload,
        num_cores=cluster.num_cores,
        end=end if count else 0,
        start=jobs[k.START],
        duration=jobs[k.DURATION],
        predicted=jobs[k.PREDICTED],
        status=rows[k.STATUS],
        corrections=rows[k.CORRECTIONS],
        started=rows[k.STARTED, : w[k.NUM_STARTED]],
        ended_before=rows[k.ENDED_BEFORE, : w[k.NUM_STARTED]],
        ended=rows[k.ENDED, : w[k.NUM_ENDED]],
        recorded=rows[k.RECORDED, : w[k.NUM_RECORDED]],
    )


def _set_order(order: Any, columns: Any, second: int, w: NDArray[np.int64], jobs: NDArray[np.float64]) -> None:
    """Set the scores of a priority order, or the formula by which the kernel computes them."""
    from desim.problems.batch.compiled import kernel as k

    expected, name = getattr(order, "expected", False), order.name.removesuffix("-expected")
    if name not in CHANGING and not (expected and w[k.PREDICTOR] == k.USER_AVERAGE):
        jobs[k.SCORE + second] = order.scores(columns, 0.0)
    elif name in k.FORMULAS:
        w[k.FORMULA + second], w[k.BY_EXPECTED + second] = k.FORMULAS[name], expected
        jobs[k.TERM + second] = order.term(columns)
    else:
        raise Unfit(f"order {order.name} with averages of users")


def _set_multifactor(orders: list[Any], user_ids: NDArray[np.int64], state: tuple[Any, ...]) -> None:
    """Set weights and shares of multifactor priorities, which must be the same."""
    from desim.problems.batch.compiled import kernel as k

    (w, f, jobs, rows), names = state, ("age", "size", "fair_share", "max_age", "half_life", "narrow_first", "shares")
    first, *others = ([getattr(order, name) for name in names] for order in orders)
    if any(other != first for other in others):
        raise Unfit("two multifactor orders")
    f[k.AGE], f[k.SIZE], f[k.FAIR_SHARE], f[k.MAX_AGE], f[k.HALF_LIFE], w[k.IS_NARROW_FIRST], shares = first
    f[k.HALF], f[k.TWO], f[k.LOG_TWO] = 0.5, 2.0, math.log(2.0)
    users, rows[k.OWNER] = np.unique(user_ids, return_inverse=True)
    w[k.NUM_OWNERS] = len(users)
    jobs[k.SHARE, : len(users)] = [shares.get(user, 1.0) for user in users.tolist()]
    for field in (k.HELD, k.HAS_USED, k.HAS_QUEUED):
        rows[field, : len(users)] = 0
    for field in (k.USED, k.USED_SINCE):
        jobs[field, : len(users)] = 0.0
