"""Compiled engine: runs of rigid jobs on counted cores without SimPy, with the same records to the last bit.

:func:`simulate` computes the starts of a run in :mod:`desim.problems.batch.compiled.kernel`; tables are made when
they are read. SimPy's kernel stays the definition, and runs whatever :func:`obstacle` names. An agent that can be
compiled has a method ``compiled_rule()``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration, WorkloadError, missing
from desim.problems.batch.job import Job
from desim.problems.batch.predictors import as_predictor
from desim.problems.batch.workload import Workload
from desim.records import Records
from desim.result import Result

if TYPE_CHECKING:
    from os import PathLike

    from desim.problems.batch.cluster import BatchCluster
    from desim.problems.batch.compiled.records import Outcome

__all__ = ["CompiledRule", "obstacle"]

UNFIT = {"sizes": "moldable jobs", "request": "jobs that request nodes", "after": "jobs that depend on others"}
"""Columns of workloads that the engine cannot simulate, and what they mean."""

EVENTS = 1_024
"""Number of events that are simulated at a time."""


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


class _Unfit(Exception):
    """The run needs SimPy's kernel."""


def obstacle(cluster: BatchCluster, agent: Any) -> str:
    """Return what in a configuration the compiled engine cannot simulate; an empty string if there is nothing.

    Parameters
    ----------
    cluster : BatchCluster
        Configuration of the cluster; its jobs are only looked at if they are a workload.
    agent : Agent
        Agent that would decide.

    Returns
    -------
    str
        For instance ``"nodes"``.
    """
    rule = agent.compiled_rule() if hasattr(agent, "compiled_rule") else "it has no compiled rule"
    predictor = cluster.predictor
    if isinstance(rule, str):
        return f"agent {getattr(agent, 'name', type(agent).__name__)} ({rule})"
    found = {
        f"class {type(cluster).__name__}": "simulate_compiled" not in vars(type(cluster)),  # inherited, so not ours
        "nodes": cluster.resources.has_nodes,
        "custom processes": cluster.processes,
        "listeners": cluster.listening,
        "ask_when_empty": cluster.ask_when_empty,
        "a predictor that is not given by its name": not isinstance(predictor, str),
        "user averages of more than two jobs": getattr(as_predictor(predictor), "last", 2) > 2,
        "jobs from an iterator": not isinstance(cluster.jobs, Sequence),
    }
    names = [name for name, is_found in found.items() if is_found]
    names += [f"part {part.name!r} of the cluster" for part in cluster.parts]
    if isinstance(cluster.jobs, Workload):
        names += _unfit(cluster.jobs)
    return next(iter(names), "")


def simulate(
    cluster: BatchCluster,
    agent: Any,
    *,
    seed: int,
    until: float,
    out: str | PathLike[str] | None,
    needed: bool,
) -> Result | None:
    """Simulate a run with the compiled engine.

    Parameters
    ----------
    cluster : BatchCluster
        Configuration of the cluster.
    agent : Agent
        Agent.
    seed : int
        Seed, which only the description of the run contains, since nothing is random.
    until : float
        End of the run in seconds.
    out : path or None
        Directory for the records.
    needed : bool
        Whether to raise an error if SimPy's kernel is needed.

    Returns
    -------
    Result or None
        Result; None if SimPy's kernel is needed.

    Raises
    ------
    InvalidConfiguration
        If SimPy's kernel is needed but excluded.
    MissingDependency
        If numba is missing but needed.
    """
    try:
        if why := obstacle(cluster, agent):
            raise _Unfit(why)
        if not is_installed():
            raise missing("engine='compiled'", ModuleNotFoundError("No module named 'numba'", name="numba"))
        return _simulate(cluster, agent, seed, until, out)
    except _Unfit as unfit:
        if needed:
            raise InvalidConfiguration(
                f"engine: got 'compiled', which cannot simulate {unfit}; try 'auto' or 'simpy'"
            ) from None
        return None


def is_installed() -> bool:
    """Return whether numba, the compiler, is installed."""
    return find_spec("numba") is not None


def is_cached() -> bool:
    """Return whether numba has compiled the kernel as it is now, and stored it beside the source."""
    source = Path(__file__).with_name("kernel.py")
    written = source.stat().st_mtime
    return any(index.stat().st_mtime >= written for index in source.parent.glob("__pycache__/kernel.run-*.nbi"))


class _Columns:
    """All jobs of a workload with the columns of a queue, from which a priority order computes scores."""

    def __init__(self, workload: Workload, expected: NDArray[np.float64]) -> None:
        self.submission_time = workload["submission_time"]
        self.requested_time = workload["requested_time"]
        self.requested_cores = workload["requested_cores"]
        self.expected_time = expected

    def __len__(self) -> int:
        return len(self.submission_time)


def _simulate(cluster: BatchCluster, agent: Any, seed: int, until: float, out: str | PathLike[str] | None) -> Result:
    """Simulate a run that has no obstacle in its configuration."""
    workload = _workload(cluster)
    from desim.problems.batch.compiled import kernel as k
    from desim.problems.batch.compiled import records as r

    rule, count = agent.compiled_rule(), len(workload)
    predictor: Any = as_predictor(cluster.predictor)
    cores, requested, run_time = (workload[name] for name in ("requested_cores", "requested_time", "run_time"))
    if cluster.too_wide == "error" and (cores > cluster.num_cores).any():
        raise _Unfit("jobs that are too wide")
    jobs, rows = np.empty((k.NUM_FIELDS, count)), np.empty((k.NUM_ROWS, count), np.int64)
    jobs[k.SUBMISSION], jobs[k.REQUESTED_TIME], jobs[k.RUN_TIME] = workload["submission_time"], requested, run_time
    rows[k.CORES] = cores
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
    for second, order in enumerate(filter(None, (rule.order, rule.backfill))):
        _set_order(order, columns, second, w, jobs)
    if multifactor := [
        order for order in (rule.order, rule.backfill) if order is not None and order.name == "multifactor"
    ]:
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
        raise _Unfit("a run that stalls")
    is_cut = w[k.NUM_ENDED] + (rows[k.STATUS] == k.REJECTED).sum() < count
    end: float = until if is_cut else float(f[k.NOW])
    outcome = r.Outcome(workload, cluster.num_cores, end if count else 0, w, jobs, rows)
    return _recorded(cluster, outcome, cluster.describe() | {"seed": seed, "agent": agent.name}, until, out)


def _set_order(order: Any, columns: Any, second: int, w: NDArray[np.int64], jobs: NDArray[np.float64]) -> None:
    """Set the scores of a priority order, or the formula by which the kernel computes them."""
    from desim.problems.batch.compiled import kernel as k

    expected, name = getattr(order, "expected", False), order.name.removesuffix("-expected")
    if name not in k.CHANGING and not (expected and w[k.PREDICTOR] == k.USER_AVERAGE):
        jobs[k.SCORE + second] = order.scores(columns, 0.0)
    elif name in k.FORMULAS:
        w[k.FORMULA + second], w[k.BY_EXPECTED + second] = k.FORMULAS[name], expected
        jobs[k.TERM + second] = order.term(columns)
    else:
        raise _Unfit(f"order {order.name} with averages of users")


def _set_multifactor(orders: list[Any], user_ids: NDArray[np.int64], state: tuple[Any, ...]) -> None:
    """Set weights and shares of multifactor priorities, which must be the same."""
    from desim.problems.batch.compiled import kernel as k

    (w, f, jobs, rows), names = state, ("age", "size", "fair_share", "max_age", "half_life", "narrow_first", "shares")
    first, *others = ([getattr(order, name) for name in names] for order in orders)
    if any(other != first for other in others):
        raise _Unfit("two multifactor orders")
    f[k.AGE], f[k.SIZE], f[k.FAIR_SHARE], f[k.MAX_AGE], f[k.HALF_LIFE], w[k.IS_NARROW_FIRST], shares = first
    f[k.HALF], f[k.TWO], f[k.LOG_TWO] = 0.5, 2.0, math.log(2.0)
    users, rows[k.OWNER] = np.unique(user_ids, return_inverse=True)
    w[k.NUM_OWNERS] = len(users)
    jobs[k.SHARE, : len(users)] = [shares.get(user, 1.0) for user in users.tolist()]
    for field in (k.HELD, k.HAS_USED, k.HAS_QUEUED):
        rows[field, : len(users)] = 0
    for field in (k.USED, k.USED_SINCE):
        jobs[field, : len(users)] = 0.0


def _recorded(
    cluster: BatchCluster, outcome: Outcome, info: dict[str, Any], until: float, out: str | PathLike[str] | None
) -> Result:
    """Return the result of a run, whose records are written to a directory or made when they are read."""
    further = {"until": None if until == math.inf else until, "engine": "compiled"}
    records = Records(tables := cluster.tables(), out, info | further)
    if out is not None:
        rows = outcome.recorded
        records.extend("jobs", lambda begin, end: outcome.frame(tables["jobs"], rows[begin:end]), outcome.times)
    info |= {"status": "complete", "end_time": outcome.end} | further
    found = records.close(info)
    if out is not None:
        return Result(found, info, cluster.kind)
    result = Result(found | {"jobs": outcome.lazy(tables["jobs"])}, info, cluster.kind)
    result.arrays = outcome.arrays
    return result


def _workload(cluster: BatchCluster) -> Workload:
    """Return the jobs of a cluster as columns; :func:`obstacle` has looked at those that are columns already."""
    jobs = cluster.jobs
    if not isinstance(jobs, Workload):
        if any(type(job) is not Job for job in jobs):
            raise _Unfit("jobs of another class than Job")
        for number, kinds in enumerate(_TYPES):
            if not kinds >= {type(job[number]) for job in jobs}:
                raise _Unfit(f"jobs with another type of {Job._fields[number]}")
        if any(later.submission_time < job.submission_time for job, later in pairwise(jobs)):
            raise _Unfit("jobs that are not in order")
        try:
            jobs = Workload.of(jobs)
        except (WorkloadError, InvalidConfiguration) as error:
            raise _Unfit(f"these jobs: {error}") from error
        if unfit := _unfit(jobs):
            raise _Unfit(unfit[0])
    return jobs


def _unfit(workload: Workload) -> list[str]:
    """Return what in a workload the engine cannot simulate."""
    return [meaning for name, meaning in UNFIT.items() if name in workload.columns]


_FLOATS, _INTEGERS = {int, float, np.float64}, {int, np.int64}
_TYPES: tuple[set[type], ...] = ({int, str, np.int64}, _FLOATS, _INTEGERS, _FLOATS, _FLOATS, _INTEGERS)
"""Types of the first fields of a job."""
