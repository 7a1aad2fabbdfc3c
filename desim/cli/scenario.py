"""One run as plain values: what the commands simulate, check and measure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desim import plugins
from desim.cli.systems import Instance, shared_instance, system_of
from desim.core import SimulationInterrupted, simulate
from desim.exceptions import InvalidConfiguration
from desim.result import Result

__all__ = [
    "Measured",
    "Scenario",
    "measure",
    "metrics_of_run",
    "replay",
    "validation_document",
    "workload_digest",
]


@dataclass(frozen=True)
class Scenario:
    """All that determines the records of a run, apart from the code, and what its metrics cover.

    Attributes
    ----------
    problem, agent : str
        By name.
    options : object
        Those of the problem: workload, seed, system, metrics.
    """

    problem: str
    agent: str
    options: Any

    @property
    def seed(self) -> int:
        """Seed of the workload and of the simulation."""
        return system_of(self.problem).seed_of(self.options)

    @property
    def metric_options(self) -> dict[str, Any]:
        """What the metrics cover."""
        return system_of(self.problem).metric_options(self.options)


@dataclass(frozen=True)
class Measured:
    """What was found out about a run.

    Attributes
    ----------
    metrics : dict of str to float
        By name.
    validation : dict
        Outcome of the independent check, see :func:`validation_document`.
    words : str
        The outcome of the check for people.
    """

    metrics: dict[str, float]
    validation: dict[str, Any]
    words: str


def replay(
    scenario: Scenario,
    instance: Instance,
    *,
    out: Path | None = None,
    listen: Callable[[int], None] | None = None,
) -> Result:
    """Simulate to the end, or until Ctrl-C.

    Parameters
    ----------
    scenario : Scenario
        What to simulate.
    instance : Instance
        Its workload and system.
    out : Path, optional
        Directory to stream the records to.
    listen : callable, optional
        Called with the number of steps done, now and then.

    Returns
    -------
    Result
        Its status is ``"interrupted"`` after Ctrl-C.
    """
    agent = plugins.create_agent(instance.kind, scenario.agent)
    problem = instance.make(agent)
    if listen is not None and instance.steps is not None:
        problem.on(instance.steps.event, _counter(listen))
    try:
        return simulate(problem, agent, seed=scenario.seed, until=instance.until, out=out)
    except SimulationInterrupted as interruption:
        return interruption.result


def _counter(listen: Callable[[int], None]) -> Callable[[float, Any], None]:
    done = 0

    def count(time: float, subject: Any) -> None:
        nonlocal done
        done += 1
        if done % 100 == 0:
            listen(done)

    return count


def measure(result: Result, scenario: Scenario, instance: Instance) -> Measured:
    """Check a run against its workload and compute its metrics.

    Parameters
    ----------
    result : Result
        The run.
    scenario : Scenario
        What was simulated, and what the metrics cover.
    instance : Instance
        Its workload.

    Returns
    -------
    Measured
        Metrics and outcome of the check.

    Raises
    ------
    InvalidConfiguration
        If the metrics are to cover nothing, or own metrics are no numbers.
    """
    from desim.plotting._presentations import PRESENTATIONS
    from desim.validation import validate

    metrics = metrics_of_run(result, scenario)
    if instance.kind not in PRESENTATIONS:
        words = f"not checked: there are no rules for problem {instance.kind!r}"
        return Measured(metrics, {"valid": None, "checks": {}, "counts": {}, "violations": []}, words)
    report = validate(result, instance.workload)
    return Measured(metrics, validation_document(report), str(report))


def metrics_of_run(result: Result, scenario: Scenario) -> dict[str, float]:
    """Return the metrics of a run: those of desim, and those of a problem of the user's own.

    Parameters
    ----------
    result : Result
        The run.
    scenario : Scenario
        What was simulated, and what the metrics cover.

    Returns
    -------
    dict of str to float
        By name.

    Raises
    ------
    InvalidConfiguration
        If the metrics are to cover nothing, or own metrics are no numbers.
    """
    from desim.plotting._presentations import PRESENTATIONS

    if system_of(scenario.problem).kind is not None:
        return result.metrics(**scenario.metric_options)
    instance = shared_instance(scenario.problem, scenario.options)
    metrics = result.metrics() if instance.kind in PRESENTATIONS else {}
    for name, value in (instance.measure(result) if instance.measure is not None else {}).items():
        try:
            metrics[str(name)] = float(value)
        except (TypeError, ValueError):
            raise InvalidConfiguration(f"{scenario.problem}: metric {name!r} is {value!r}, want a number") from None
    return metrics


def workload_digest(result: Result, instance: Instance) -> str:
    """Return a digest of the parts of the records in which all agents have to agree.

    Parameters
    ----------
    result : Result
        The run.
    instance : Instance
        What was simulated.

    Returns
    -------
    str
        Hexadecimal; empty where nothing is known of the tables.
    """
    from desim.plotting._report_runs import workload_tables

    digest, tables = hashlib.sha256(), workload_tables(result, instance.presentation)
    for name, table in tables.items():
        digest.update(f"{name}\n{table.write_csv()}".encode())
    return digest.hexdigest()[:16] if tables else ""


def validation_document(report: Any) -> dict[str, Any]:
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
