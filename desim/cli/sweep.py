"""Many runs in parallel processes; finished ones are stored at once and never repeated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from desim.cli.output import remark
from desim.cli.scenario import Scenario, measure, metrics_of_run, replay, workload_digest
from desim.cli.store import RunStore
from desim.cli.systems import shared_instance
from desim.exceptions import DesimError, RecordError
from desim.parallel import Failed, WorkerDied, Workers, perform_tasks
from desim.result import Result

__all__ = ["RunSummary", "SweepInterrupted", "sweep"]


@dataclass(frozen=True)
class RunSummary:
    """What a comparison needs of a run.

    Attributes
    ----------
    scenario : Scenario
        What was simulated.
    metrics : dict of str to float
        By name.
    validation : dict
        Outcome of the check, with ``valid``, ``counts`` and ``violations``.
    workload : str
        A digest of what does not depend on the agent; empty where that is not known.
    directory : Path or None
        Where its records are, if they were stored.
    reused : bool
        Whether it was there already.
    """

    scenario: Scenario
    metrics: dict[str, float]
    validation: dict[str, Any]
    workload: str
    directory: Path | None
    reused: bool = False


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`sweep`; the message says how far it had come."""


def sweep(
    scenarios: Sequence[Scenario],
    *,
    store: RunStore | None,
    workers: Workers,
    listen: Callable[[int], None] | None = None,
) -> list[RunSummary]:
    """Simulate what is not stored yet.

    Parameters
    ----------
    scenarios : sequence of Scenario
        The runs.
    store : RunStore, optional
        Where runs are looked up and stored; records are not kept if None.
    workers : Workers
        Who performs them.
    listen : callable, optional
        Called with the number of runs that are done.

    Returns
    -------
    list of RunSummary
        In the order of the scenarios.

    Raises
    ------
    SweepInterrupted
        On Ctrl-C; what has finished is stored.
    DesimError
        The first one that a run raises; its message names the agent and the seed.
    """
    done: dict[Scenario, RunSummary] = {}
    for scenario in scenarios:
        if store is not None and (summary := _stored(scenario, store)) is not None:
            done[scenario] = summary
    missing = [scenario for scenario in scenarios if scenario not in done]
    if listen is not None and done:
        listen(len(done))
    try:
        for summary in _simulated(missing, store, workers):
            done[summary.scenario] = summary
            if listen is not None:
                listen(len(done))
    except KeyboardInterrupt as error:
        raise SweepInterrupted(f"{len(done)} of {len(scenarios)} runs are done") from error
    return [done[scenario] for scenario in scenarios]


def _stored(scenario: Scenario, store: RunStore) -> RunSummary | None:
    """Return a stored run, measured anew if the metrics shall cover something else."""
    found = store.find(scenario)
    if found is None:
        return None
    directory = store.path(scenario)
    if found["metric_options"] != scenario.metric_options:
        found["metrics"] = metrics_of_run(Result.load(directory), scenario)
        document = {key: found[key] for key in ("metrics", "validation", "workload")}
        store.describe(directory, scenario, document | {"metric_options": scenario.metric_options})
    metrics = {name: math.nan if value is None else value for name, value in found["metrics"].items()}
    return RunSummary(scenario, metrics, found["validation"], found["workload"], directory, reused=True)


def _simulated(scenarios: Sequence[Scenario], store: RunStore | None, workers: Workers) -> Iterator[RunSummary]:
    """Yield the runs as they finish."""
    if workers.backend == "local":
        workers = replace(workers, jobs=max(min(workers.jobs, len(scenarios)), 1))
    with closing(perform_tasks(partial(perform, store=store), scenarios, workers)) as simulated:
        for ended in simulated:
            if isinstance(ended, Failed):
                _raise(ended)
            yield ended.outcome


def _raise(failed: Failed[Scenario]) -> NoReturn:
    """Raise the error of a run; of what was not expected, such as an error in an agent, show where it happened."""
    if isinstance(failed.error, DesimError) and not isinstance(failed.error, WorkerDied):
        raise failed.error  # which names the run
    if not isinstance(failed.error, WorkerDied):
        remark(failed.trace.rstrip())
    run = f"{failed.task.agent}, seed {failed.task.seed}"
    raise DesimError(f"{run}: {failed.kind}: {failed.message}") from failed.error


def perform(scenario: Scenario, store: RunStore | None) -> RunSummary:
    """Simulate, check, measure and store one run; called in a process of its own.

    Parameters
    ----------
    scenario : Scenario
        The run.
    store : RunStore or None
        Where it is stored.

    Returns
    -------
    RunSummary
        What the comparison needs of it.
    """
    with _naming(scenario):
        instance = shared_instance(scenario.problem, scenario.options)
        if store is None:
            result = _complete(replay(scenario, instance))
            found, workload = measure(result, scenario, instance), workload_digest(result, instance)
            return RunSummary(scenario, found.metrics, found.validation, workload, None)
        with store.draft(scenario) as draft:
            result = _complete(replay(scenario, instance, out=draft))
            found, workload = measure(result, scenario, instance), workload_digest(result, instance)
            document = {"metrics": found.metrics, "validation": found.validation, "workload": workload}
            store.describe(draft, scenario, document | {"metric_options": scenario.metric_options})
        return RunSummary(scenario, found.metrics, found.validation, workload, store.path(scenario))


def _complete(result: Result) -> Result:
    if result.info["status"] == "interrupted":
        raise KeyboardInterrupt
    return result


@contextmanager
def _naming(scenario: Scenario) -> Iterator[None]:
    """Say in an error which run it was."""
    try:
        yield
    except DesimError as error:
        kind = DesimError if isinstance(error, RecordError) else type(error)  # arguments are not to blame
        raise kind(f"{scenario.agent}, seed {scenario.seed}: {error}") from error
