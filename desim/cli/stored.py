"""Stored results that commands read: runs under names that distinguish them, and comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from desim.exceptions import InvalidConfiguration, RecordError
from desim.files import read_fields
from desim.problem import Better, Metric, kind_of
from desim.records import is_plain_name
from desim.result import Result
from desim.sweep import Run
from desim.sweep.comparison import Comparison, IntervalKind, compare_runs

__all__ = ["load_shown"]

COMPARISON = "comparison.json"


class _Workload(TypedDict):
    """Workload of a comparison."""

    name: str
    citation: NotRequired[str]


class _Options(TypedDict):
    """Options of a comparison that are used again."""

    metric: NotRequired[str | None]
    better: NotRequired[Better | None]


class _Run(TypedDict):
    """A run of a comparison."""

    agent: str
    seed: int
    records: str | None
    reused: bool
    valid: bool | None
    violations: list[Any]
    metrics: dict[str, float | None]
    window: NotRequired[list[float]]
    workload: NotRequired[str]


class _Metric(TypedDict):
    """Description of a user's metric."""

    name: str
    meaning: str
    unit: str
    better: Better | None


class _Comparison(TypedDict):
    """What is read of the file of a comparison."""

    workload: _Workload
    options: _Options
    baseline: str
    interval: IntervalKind
    command: NotRequired[str | None]
    own_metrics: NotRequired[list[_Metric]]
    runs: list[_Run]


def load_shown(directories: Sequence[Path]) -> dict[str, Result] | Comparison:
    """Load what a command is to show: results of one problem under names that distinguish them, or a comparison.

    Parameters
    ----------
    directories : sequence of Path
        Directories of the results, or that of one comparison.

    Returns
    -------
    dict of str to Result, or Comparison
        Results by name, in the order of the directories; or the comparison, as it was when its file was written.

    Raises
    ------
    InvalidConfiguration
        If there are no directories, a comparison is not alone, the results are of different problems, or a directory is
        given twice.
    RecordError
        If files are not readable.
    """
    if not directories:
        raise InvalidConfiguration("nothing to show; give one or more results, or a comparison")
    if (directories[0] / COMPARISON).is_file():
        if len(directories) > 1:
            raise InvalidConfiguration(f"{directories[0]} is a comparison, which can only be shown by itself")
        return _comparison(directories[0])
    loaded = [Result.load(directory) for directory in directories]
    problems = list(dict.fromkeys(str(result.info.get("problem", "batch")) for result in loaded))
    if len(problems) > 1:
        raise InvalidConfiguration(f"the results are of different problems: {', '.join(problems)}")
    return dict(zip(_names(loaded, directories), loaded, strict=True))


def _names(results: Sequence[Result], directories: Sequence[Path]) -> list[str]:
    """Name runs after their agents if these differ, else after agents and seeds, else after their directories."""
    agents = [
        str(result.info.get("agent") or directory.name) for result, directory in zip(results, directories, strict=True)
    ]
    choices: list[Callable[[int], str]] = [
        lambda at: agents[at],
        lambda at: f"{agents[at]}, seed {results[at].info.get('seed')}",
        lambda at: directories[at].name or str(directories[at]),
        lambda at: str(directories[at]),
    ]
    for choice in choices:
        names = [choice(at) for at in range(len(results))]
        if max(Counter(names).values()) == 1:
            return names
    raise InvalidConfiguration("a result is given twice")


def _comparison(directory: Path) -> Comparison:
    """Return a comparison from its stored files."""
    path = directory / COMPARISON
    described = read_fields(path, _Comparison)
    if not described["runs"]:
        raise RecordError(f"{path}: runs: got none, expected at least one")
    runs = [
        Run(
            described["workload"]["name"],
            run["agent"],
            run["seed"],
            {**run, "validation": {"valid": run["valid"], "violations": run["violations"], "counts": {}}},
            _records(directory, run["records"]),
            run["reused"],
        )
        for run in described["runs"]
    ]
    chosen: Any = {name: described["options"].get(name) for name in ("metric", "better")}
    same: Any = {name: described.get(name) for name in ("interval", "workload", "options", "command")}
    agents = {run.policy: run.metrics.keys() for run in runs}
    paired = {(run.policy, run.seed) for run in runs}
    if described["baseline"] not in agents or len(paired) < len(agents) * len({run.seed for run in runs}):
        raise RecordError(
            f"{path}: runs: expected those of {described['baseline']!r}, and all agents on the same seeds"
        )
    if not all(run.metrics.keys() == agents[run.policy] != set() for run in runs):
        raise RecordError(f"{path}: metrics: expected the same of all runs of an agent")
    kind = kind_of(runs[0].load())
    own = [Metric(**one) for one in described.get("own_metrics", ())]
    return compare_runs(
        runs, described["baseline"], replace(kind, metrics_from=kind.metrics.named(own)), **chosen, **same
    )


def _records(directory: Path, stored: str | None) -> Path | None:
    """Return the directory of a run's records, also after the comparison was moved; never outside its directory."""
    if stored is not None and not is_plain_name(Path(stored).name):
        raise RecordError(f"{directory / COMPARISON}: records: got {stored!r}, expected the directory of a run")
    return None if stored is None else directory / "runs" / Path(stored).name
