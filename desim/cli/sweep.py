"""Many runs in parallel processes; finished ones are stored at once and never repeated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from desim.cli.options import MetricOptions
from desim.cli.scenario import Scenario, measure, replay, shared_workload, validation_document
from desim.cli.store import RunStore
from desim.exceptions import DesimError, RecordError
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
    directory : Path or None
        Where its records are, if they were stored.
    reused : bool
        Whether it was there already.
    """

    scenario: Scenario
    metrics: dict[str, float]
    validation: dict[str, Any]
    directory: Path | None
    reused: bool = False


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`sweep`; the message says how far it had come."""


def sweep(
    scenarios: Sequence[Scenario],
    options: MetricOptions,
    *,
    store: RunStore | None,
    workers: int,
    listen: Callable[[int], None] | None = None,
) -> list[RunSummary]:
    """Simulate what is not stored yet.

    Parameters
    ----------
    scenarios : sequence of Scenario
        The runs.
    options : MetricOptions
        What the metrics cover.
    store : RunStore, optional
        Where runs are looked up and stored; records are not kept if None.
    workers : int
        Processes at a time.
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
        if store is not None and (summary := _stored(scenario, options, store)) is not None:
            done[scenario] = summary
    missing = [scenario for scenario in scenarios if scenario not in done]
    reused = len(done)
    try:
        for summary in _simulated(missing, options, store, min(workers, len(missing))):
            done[summary.scenario] = summary
            if listen is not None:
                listen(len(done) - reused)
    except KeyboardInterrupt as error:
        raise SweepInterrupted(f"{len(done)} of {len(scenarios)} runs are done") from error
    return [done[scenario] for scenario in scenarios]


def _stored(scenario: Scenario, options: MetricOptions, store: RunStore) -> RunSummary | None:
    """Return a stored run, measured anew if the metrics shall cover something else."""
    found = store.find(scenario)
    if found is None:
        return None
    directory = store.path(scenario)
    if found["metric_options"] != asdict(options):
        found["metrics"] = Result.load(directory).metrics(**asdict(options))
        document = {key: found[key] for key in ("metrics", "validation")} | {"metric_options": asdict(options)}
        store.describe(directory, scenario, document)
    metrics = {name: math.nan if value is None else value for name, value in found["metrics"].items()}
    return RunSummary(scenario, metrics, found["validation"], directory, reused=True)


def _simulated(
    scenarios: Sequence[Scenario], options: MetricOptions, store: RunStore | None, workers: int
) -> Iterator[RunSummary]:
    """Yield the runs as they finish."""
    if workers <= 1:
        yield from (perform(scenario, options, store) for scenario in scenarios)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    pool = Parallel(n_jobs=workers, backend="loky", return_as="generator_unordered", max_nbytes=None, batch_size=1)
    try:
        yield from pool(delayed(perform)(scenario, options, store) for scenario in scenarios)
    except BrokenProcessPool as error:
        raise DesimError(
            "a process that simulated has ended by itself, perhaps for lack of memory: try fewer --workers"
        ) from error


def perform(scenario: Scenario, options: MetricOptions, store: RunStore | None) -> RunSummary:
    """Simulate, check, measure and store one run; called in a process of its own.

    Parameters
    ----------
    scenario : Scenario
        The run.
    options : MetricOptions
        What the metrics cover.
    store : RunStore or None
        Where it is stored.

    Returns
    -------
    RunSummary
        What the comparison needs of it.
    """
    with _naming(scenario):
        workload = shared_workload(scenario.problem, scenario.workload)
        if store is None:
            found = measure(_complete(replay(scenario, workload)), workload, options)
            return RunSummary(scenario, found.metrics, validation_document(found.validation), None)
        with store.draft(scenario) as draft:
            found = measure(_complete(replay(scenario, workload, out=draft)), workload, options)
            validation = validation_document(found.validation)
            document = {"metric_options": asdict(options), "metrics": found.metrics, "validation": validation}
            store.describe(draft, scenario, document)
        return RunSummary(scenario, found.metrics, validation, store.path(scenario))


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
