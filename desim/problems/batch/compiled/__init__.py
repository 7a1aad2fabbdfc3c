"""Compiled engine: runs of rigid jobs on counted cores without SimPy, with the same records to the last bit.

:func:`simulate` computes the starts of a run in one of the loops that :mod:`desim.problems.batch.compiled.loops` names;
tables are made when they are read. SimPy's kernel stays the definition, and runs whatever :func:`obstacle` names. An
agent that can be compiled has a method ``compiled_rule()``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.exceptions import InvalidConfiguration, WorkloadError, missing
from desim.problem import kinds
from desim.problems.batch.compiled.loops import CompiledRule, Unfit, loop_of, simulated
from desim.problems.batch.job import Job
from desim.problems.batch.predictors import as_predictor
from desim.problems.batch.workload import Workload
from desim.records import Records
from desim.result import Result

if TYPE_CHECKING:
    from os import PathLike

    import polars as pl

    from desim.problems.batch.cluster import BatchCluster
    from desim.problems.batch.compiled.records import Outcome
    from desim.tables import Table

__all__ = ["CompiledRule", "obstacle"]

UNFIT = {"sizes": "moldable jobs", "request": "jobs that request nodes", "after": "jobs that depend on others"}
"""Columns of workloads that the engine cannot simulate, and what they mean."""


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
            raise Unfit(why)
        if not is_installed():
            raise missing("engine='compiled'", ModuleNotFoundError("No module named 'numba'", name="numba"))
        return _simulate(cluster, agent, seed, until, out)
    except Unfit as unfit:
        if needed:
            raise InvalidConfiguration(
                f"engine: got 'compiled', which cannot simulate {unfit}; try 'auto' or 'simpy'"
            ) from None
        return None


def is_installed() -> bool:
    """Return whether numba, the compiler, is installed."""
    return find_spec("numba") is not None


def is_cached(cluster: BatchCluster, agent: Any) -> bool:
    """Return whether numba has compiled the loop of a run as it is now, and stored it beside the source.

    Parameters
    ----------
    cluster : BatchCluster
        Configuration of the cluster.
    agent : Agent
        Agent that has a compiled rule.
    """
    loop, folder = loop_of(cluster, agent.compiled_rule()), Path(__file__).parent
    sources = [folder / f"{name}.py" for name in (loop.partition(".")[0], "numba_functions")]
    written = max(source.stat().st_mtime for source in sources)
    return any(index.stat().st_mtime >= written for index in folder.glob(f"__pycache__/{loop}-*.nbi"))


def _simulate(cluster: BatchCluster, agent: Any, seed: int, until: float, out: str | PathLike[str] | None) -> Result:
    """Simulate a run that has no obstacle in its configuration."""
    outcome = simulated(cluster, _workload(cluster), agent.compiled_rule(), until)
    return _recorded(cluster, outcome, cluster.describe() | {"seed": seed, "agent": agent.name}, until, out)


def _recorded(
    cluster: BatchCluster, outcome: Outcome, info: dict[str, Any], until: float, out: str | PathLike[str] | None
) -> Result:
    """Return the result of a run, whose records are written to a directory or made when they are read."""
    further = {"until": None if until == math.inf else until, "engine": "compiled"}
    ended = {"status": "complete", "end_time": outcome.end}
    if out is not None:
        records = Records(tables := cluster.tables(), out, info | further)
        rows = outcome.recorded
        records.extend("jobs", lambda begin, end: outcome.frame(tables["jobs"], rows[begin:end]), outcome.times)
        info |= ended | further
        return Result(records.close(info), info, cluster.kind)
    kind = kinds()[cluster.name] if cluster.kind is None else cluster.kind
    later = {name: partial(_table, outcome, cluster.tables, name) for name in kind.names_of_tables(info)}
    result = Result(later, info | ended | further, cluster.kind)
    result.array = outcome.array
    return result


def _table(outcome: Outcome, tables: Callable[[], dict[str, Table]], name: str) -> pl.LazyFrame:
    """Return a table of a run: jobs, or an empty one."""
    table = tables()[name]
    return outcome.lazy(table) if name == "jobs" else table.to_frame([]).lazy()


def _workload(cluster: BatchCluster) -> Workload:
    """Return the jobs of a cluster as columns; :func:`obstacle` has looked at those that are columns already."""
    jobs = cluster.jobs
    if not isinstance(jobs, Workload):
        if any(type(job) is not Job for job in jobs):
            raise Unfit("jobs of another class than Job")
        for number, kinds in enumerate(_TYPES):
            if not kinds >= {type(job[number]) for job in jobs}:
                raise Unfit(f"jobs with another type of {Job._fields[number]}")
        if any(later.submission_time < job.submission_time for job, later in pairwise(jobs)):
            raise Unfit("jobs that are not in order")
        try:
            jobs = Workload.of(jobs)
        except (WorkloadError, InvalidConfiguration) as error:
            raise Unfit(f"these jobs: {error}") from error
        if unfit := _unfit(jobs):
            raise Unfit(unfit[0])
    return jobs


def _unfit(workload: Workload) -> list[str]:
    """Return what in a workload the engine cannot simulate."""
    return [meaning for name, meaning in UNFIT.items() if name in workload.columns]


_FLOATS, _INTEGERS = {int, float, np.float64}, {int, np.int64}
_TYPES: tuple[set[type], ...] = ({int, str, np.int64}, _FLOATS, _INTEGERS, _FLOATS, _FLOATS, _INTEGERS)
"""Types of the first fields of a job."""
