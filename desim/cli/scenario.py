"""One batch run as plain values: what the commands simulate, check and measure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from desim import plugins
from desim.cli.options import MetricOptions, SystemOptions, WorkloadOptions
from desim.core import SimulationInterrupted, simulate
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster
from desim.processes import random_outages
from desim.result import Result
from desim.validation import ValidationReport, validate

__all__ = ["Measured", "Scenario", "cluster", "load_workload", "measure", "replay", "validation_document"]


@dataclass(frozen=True)
class Scenario:
    """All that determines the records of a run, apart from the code.

    Attributes
    ----------
    problem, agent : str
        By name.
    workload : WorkloadOptions
        Jobs, cores and seed.
    system : SystemOptions
        Behaviour of the cluster.
    """

    problem: str
    agent: str
    workload: WorkloadOptions
    system: SystemOptions

    @property
    def seed(self) -> int:
        """Seed of the workload and of the simulation."""
        return self.workload.seed


@dataclass(frozen=True)
class Measured:
    """What was found out about a run.

    Attributes
    ----------
    metrics : dict of str to float
        By name.
    validation : ValidationReport
        Of the independent check.
    """

    metrics: dict[str, float]
    validation: ValidationReport


def load_workload(problem: str, options: WorkloadOptions, *, stream: bool = False) -> plugins.Workload:
    """Draw or read the jobs.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.
    options : WorkloadOptions
        Which jobs.
    stream : bool
        Take them one by one while they are used.

    Returns
    -------
    Workload
        Its number of cores is known.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range, or the cores of the machine are not known.
    WorkloadError
        If there is no such file, it cannot be read, or its content is broken.
    """
    workload: plugins.Workload = plugins.workload_provider(problem, options.trace).load(
        options.trace,
        num_jobs=options.jobs,
        num_cores=options.cores,
        seed=options.seed,
        load=options.load,
        overestimate=options.overestimate,
        stream=stream,
    )
    if workload.num_cores is None:
        raise InvalidConfiguration(f"{options.trace} does not state the cores of the machine: give them with --cores")
    return workload


@lru_cache(maxsize=1)
def shared_workload(problem: str, options: WorkloadOptions) -> plugins.Workload:
    """Load a workload that several runs in a row use.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.
    options : WorkloadOptions
        Which jobs.

    Returns
    -------
    Workload
        The same object as in the call before, if the arguments are the same.
    """
    return load_workload(problem, options)


def cluster(workload: plugins.Workload, options: SystemOptions) -> BatchCluster:
    """Return the cluster with its jobs.

    Parameters
    ----------
    workload : Workload
        Jobs and cores.
    options : SystemOptions
        Behaviour.

    Returns
    -------
    BatchCluster
        To be simulated.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range, or only one of the two times of outages is given.
    """
    failure, repair = options.mean_time_to_failure, options.mean_time_to_repair
    if (failure is None) != (repair is None):
        raise InvalidConfiguration("outages need both --mean-time-to-failure and --mean-time-to-repair")
    outages = []
    if failure is not None and repair is not None:
        outages.append(random_outages(failure, repair, units_per_failure=options.cores_per_failure))
    assert workload.num_cores is not None
    return BatchCluster(
        workload.jobs,
        workload.num_cores,
        kill_at_request=options.kill_at_request,
        too_wide=options.too_wide,
        on_outage=options.on_outage,
        processes=outages,
    )


def replay(
    scenario: Scenario,
    workload: plugins.Workload,
    *,
    out: Path | None = None,
    listen: Callable[[int], None] | None = None,
) -> Result:
    """Simulate to the end, or until Ctrl-C.

    Parameters
    ----------
    scenario : Scenario
        What to simulate.
    workload : Workload
        Its jobs.
    out : Path, optional
        Directory to stream the records to.
    listen : callable, optional
        Called with the number of finished jobs, now and then.

    Returns
    -------
    Result
        Its status is ``"interrupted"`` after Ctrl-C.
    """
    problem = cluster(workload, scenario.system)
    if listen is not None:
        problem.on("completion", _counter(listen))
    agent = plugins.create_agent(scenario.problem, scenario.agent)
    until = math.inf if scenario.system.until is None else scenario.system.until
    try:
        return simulate(problem, agent, seed=scenario.seed, until=until, out=out)
    except SimulationInterrupted as interruption:
        return interruption.result


def _counter(listen: Callable[[int], None]) -> Callable[[float, Any], None]:
    done = 0

    def count(time: float, execution: Any) -> None:
        nonlocal done
        done += 1
        if done % 100 == 0:
            listen(done)

    return count


def measure(result: Result, workload: plugins.Workload, options: MetricOptions) -> Measured:
    """Check a run against its workload and compute its metrics.

    Parameters
    ----------
    result : Result
        The run.
    workload : Workload
        What was simulated.
    options : MetricOptions
        What the metrics cover.

    Returns
    -------
    Measured
        Metrics and outcome of the check.

    Raises
    ------
    InvalidConfiguration
        If the metrics are to cover nothing.
    """
    return Measured(result.metrics(**asdict(options)), validate(result, workload.jobs))


def validation_document(report: ValidationReport) -> dict[str, Any]:
    """Return a validation as plain values.

    Parameters
    ----------
    report : ValidationReport
        The outcome.

    Returns
    -------
    dict
        ``valid``, ``checks`` and ``counts`` by rule, and ``violations``.
    """
    return {
        "valid": report.ok,
        "checks": dict(report.checks),
        "counts": dict(report.counts),
        "violations": [{"rule": violation.rule, "message": violation.message} for violation in report.violations],
    }
