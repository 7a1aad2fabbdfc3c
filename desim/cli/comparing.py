"""Comparison of agents from Python, as on the command line: :func:`compare`."""

from __future__ import annotations

import io
import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from desim import plugins, user_code
from desim.agent_resolution import resolve_agent
from desim.checks import check_int, did_you_mean, short_repr
from desim.cli.comparison import print_comparison, sentences, tables
from desim.cli.figures import FigureFormat, draw_comparison, figures_of, make_directory
from desim.cli.view import write_comparison
from desim.core import Agent
from desim.exceptions import ComparisonWarning, DesimError, InvalidConfiguration
from desim.notes import plain, print_note
from desim.plotting.axes import Style
from desim.problem import Better, Metric, Problem, kinds
from desim.records import write_atomically
from desim.reprs import html_rows
from desim.result import Result
from desim.scenario import CustomOptions, ProblemInstance, Scenario, metrics_of_run, system_of
from desim.sweep.comparison import (
    Comparison,
    IntervalKind,
    RunSummary,
    check_criterion,
    compare_runs,
    document,
    rows_of,
    write_csv,
)
from desim.sweep.digest import source_digest
from desim.sweep.identity import Identity, identity_of
from desim.sweep.options import options_of
from desim.sweep.recording import DYNAMIC
from desim.sweep.runner import Run, SweepFailed, run_all
from desim.sweep.simulated import (
    AgentByName,
    AgentByObject,
    ObjectOptions,
    ProblemByObject,
    ProblemSetting,
    shared_instance,
    simulate_run,
)
from desim.sweep.store import Store
from desim.sweep.workers import Backend, Failed, WorkerCrashed, Workers

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["ComparisonPlan", "ComparisonResult", "compare"]

#: Default number of seeds.
SEEDS = 10


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """Result of a comparison; shows its tables in a notebook and when printed.

    Attributes
    ----------
    comparison : Comparison
        Means, differences, tests and ranks of the agents without failed runs.
    summaries : tuple of RunSummary
        Summaries of their runs.
    failed : mapping of str to sequence of Failed
        Failed runs by agent.
    described : dict
        All results as plain values, the content of ``comparison.json``.
    files : tuple of Path
        Paths of the files written.
    """

    comparison: Comparison
    summaries: tuple[RunSummary, ...]
    failed: Mapping[str, Sequence[Failed[Run]]]
    described: dict[str, object]
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        """Return a line with the agents and the best of them."""
        found = self.comparison
        agents = ", ".join(found.means)
        by = "" if found.criterion is None else f", best by {found.criterion.metric}: {self.best}"
        count = len(found.seeds)
        return f"ComparisonResult({found.kind.name}: {agents}; {count} seed{'s' if count > 1 else ''}{by})"

    def __str__(self) -> str:
        """Return the tables as text, as the command line prints them."""
        with redirect_stdout(io.StringIO()) as text:
            print_comparison(self.comparison)
        return text.getvalue()

    def _repr_html_(self) -> str:
        """Return the tables and the main results in sentences, for notebooks."""
        found = [
            html_rows(table.title, table.heads, [[cell.text for cell in row] for row in table.cells], table.note)
            for table in tables(self.comparison)
        ]
        return "".join([*found, html_rows("", [], [], " ".join(sentences(self.comparison)))])

    @property
    def best(self) -> str | None:
        """Agent with the best mean of the ranking metric; None if there is none."""
        criterion = self.comparison.criterion
        means = {
            agent: row[criterion.metric].value
            for agent, row in self.comparison.means.items()
            if criterion is not None and agent not in self.comparison.left_out
        }
        if criterion is None or not means:
            return None
        return (min if criterion.better == "lower" else max)(means, key=lambda agent: means[agent])

    @property
    def table(self) -> pl.DataFrame:
        """Table with a row per agent and metric: mean, interval, difference from the baseline, tests and rank."""
        import polars as pl

        heads, rows = rows_of(self.comparison)
        blank = [[None if isinstance(cell, float) and math.isnan(cell) else cell for cell in row] for row in rows]
        schema: dict[str, Any] = {"agent": pl.String, "metric": pl.String, "seeds": pl.Int64}
        return pl.DataFrame(blank, schema=schema | dict.fromkeys(heads[3:], pl.Float64), orient="row")

    @property
    def runs(self) -> pl.DataFrame:
        """Table with a row per run: agent, seed, whether it is valid, and its metrics."""
        import polars as pl

        return pl.DataFrame(
            [
                {"agent": one.agent, "seed": one.seed, "valid": one.validation["valid"], **one.metrics}
                for one in self.summaries
            ]
        )

    @property
    def issues(self) -> tuple[str, ...]:
        """Problems with runs, one sentence each: invalid, stalled or failed runs."""
        found = list(self.comparison.unequal)
        for one in self.summaries:
            if one.stalled:
                found.append(f"{one.agent}, seed {one.seed}: stalled: {one.stalled}")
        for one in self.summaries:
            if one.validation["valid"] is False:
                found.append(f"{one.agent}, seed {one.seed}: invalid: {', '.join(one.validation['counts'])}")
        for agent, runs in self.failed.items():
            seeds = ", ".join(str(one.task.seed) for one in runs)
            found.append(f"{agent} failed and is left out (seed {seeds}): {runs[0].kind}: {runs[0].message}")
        if self.failed:
            found.append(f"compared with {self.comparison.baseline}: the other agents without failures")
        return tuple(found)

    @property
    def status(self) -> int:
        """Exit status: 0 if all runs are valid and none failed, otherwise 1."""
        return int(bool(self.failed) or any(one.validation["valid"] is False for one in self.summaries))

    def result(self, agent: str, seed: int | None = None) -> Result:
        """Return the result of a stored run.

        Parameters
        ----------
        agent : str
            Name of the agent.
        seed : int, optional
            Seed of the run; default: the first.

        Returns
        -------
        Result
            Result of the run, whose tables are read on first use.

        Raises
        ------
        InvalidConfiguration
            If there is no such run, or runs were not stored because ``out`` was not given.
        """
        wanted = self.comparison.seeds[0] if seed is None else seed
        found = {(one.agent, one.seed): one.directory for one in self.summaries}
        if (agent, wanted) not in found:
            near = did_you_mean(agent, self.comparison.means)
            raise InvalidConfiguration(f"no run of {agent!r} with seed {wanted}{near}")
        directory = found[agent, wanted]
        if directory is None:
            raise InvalidConfiguration("records of runs were not stored; use compare(..., out=DIRECTORY)")
        return Result.load(directory)

    def figures(self) -> dict[str, list[Axes]]:
        """Return figures by name, such as ``metrics`` and ``ranks``; those of runs need runs that were stored."""
        drawn = {name: draw() for name, draw in figures_of(self.comparison, self.summaries).items()}
        return {name: axes if isinstance(axes, list) else [axes] for name, axes in drawn.items()}


def compare(
    problem: str | Problem | Callable[..., Problem],
    agents: Sequence[str | Agent] | Mapping[str, str | Agent],
    *,
    seeds: int | Sequence[int] | None = None,
    baseline: str | None = None,
    metric: str | None = None,
    better: Better | None = None,
    metrics: Sequence[Metric] = (),
    interval: IntervalKind = "t",
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    backend: Backend = "local",
    address: str | None = None,
    **options: Any,
) -> ComparisonResult:
    """Simulate several agents on the same workloads, validate every run, and compare their metrics.

    It does the same as ``desim compare``, with the same results for the same settings. A progress bar is shown in a
    terminal and in a notebook.

    Parameters
    ----------
    problem : str, Problem or callable
        Name, such as ``"batch"``, or ``"module:function"``; a problem, whose workload is then the same for all seeds;
        or a function that creates one, called with ``numpy.random.default_rng(seed)`` and the options.
    agents : sequence or mapping
        Agents to compare: names, or agents of any kind, which are copied for each run. A mapping gives names to
        agents.
    seeds : int or sequence of int, optional
        Number of seeds, counted from the option ``seed``, or the seeds; each gives one workload. Default: 10, and 1 for
        a given problem and for a workload file.
    baseline : str, optional
        Agent that the others are compared with, seed by seed. Default: fcfs, else the first.
    metric : str, optional
        Metric that agents are ranked by: a name, or ``"module:name"`` of a :class:`desim.Metric` or of a function of
        the result. Default: the main metric of the problem.
    better : {"lower", "higher"}, optional
        Whether lower or higher values of the metric are better. Default: as the metric is defined.
    metrics : sequence of Metric
        Custom metrics, which tables, files and figures show beside those of the problem.
    interval : {"t", "bootstrap"}
        Method for confidence intervals: Student's t distribution, or the bootstrap.
    out : path, optional
        Directory for runs, tables, the page and figures. A stored run is reused, so that an interrupted comparison
        continues, unless something that it has used has changed: code of desim, your code, files that it has read,
        environment variables that your modules name, or the state of an object that you pass.
    workers : int, optional
        Number of parallel processes. Default: one per processor.
    backend : {"local", "ray", "dask"}
        Where runs are simulated: on this machine, or on a cluster.
    address : str, optional
        Address of the cluster's scheduler.
    **options
        Options of the problem as in ``desim compare PROBLEM --help``, such as ``cores=64, load=0.9``; for your own
        function, its arguments, besides ``seed`` and ``until``.

    Returns
    -------
    ComparisonResult
        Tables, figures and runs; a ``ComparisonWarning`` reports problems with runs.

    Raises
    ------
    InvalidConfiguration
        If a name is unknown or an argument is out of range; raised before the first run.
    SweepInterrupted
        On Ctrl-C; finished runs are stored if ``out`` is given.
    DesimError
        If runs of all agents failed.

    Examples
    --------
    >>> found = compare("batch", ["fcfs", "easy"], seeds=2, workers=1, cores=32, jobs=50, load=0.9)
    >>> found
    ComparisonResult(batch: fcfs, easy-fcfs; 2 seeds, best by waiting_time_mean: easy-fcfs)
    >>> found.table.columns[:4]
    ['agent', 'metric', 'seeds', 'mean']
    """
    if isinstance(problem, str):
        source: str | ProblemByObject = problem
        system = system_of(problem)
    else:
        source = system = ProblemByObject(_name_of(problem), _problem_or_function(problem))
    plan = ComparisonPlan(
        problem=source,
        options=_options(system.options, options),
        agents=_entrants(agents),
        seeds=seeds if seeds is not None or not isinstance(problem, Problem) else 1,
        baseline=baseline,
        metric=metric,
        better=better,
        metrics=tuple(metrics),
        interval=interval,
        out=None if out is None else Path(out),
        workers=workers,
        backend=backend,
        address=address,
    )
    found = plan.run()
    for text in found.issues:
        warnings.warn(text, ComparisonWarning, 2)
    return found


def _code_of(identity: Identity) -> str:
    """Return a digest of an object with the code of its modules."""
    modules = [name for name in identity.modules if name not in (DYNAMIC, "__main__")]
    return f"{identity.digest} {source_digest(*modules, as_in_files=True)}"


def _problem_or_function(problem: Any) -> Any:
    """Return a problem that can be simulated; raise InvalidConfiguration for anything else."""
    if isinstance(problem, Problem):
        problem.check_replayable()
    elif isinstance(problem, type) or not callable(problem):
        raise InvalidConfiguration(
            f"problem: got {short_repr(problem)}, expected a name, a desim.Problem, or a function (rng, **options)"
        )
    return problem


def _name_of(problem: Any) -> str:
    return str(getattr(problem, "__name__", type(problem).__name__))


def _options(kind: type[Any], given: Mapping[str, Any]) -> Any:
    """Return the options of a problem; those of a user's own function are its arguments, except seed and until."""
    if kind not in (CustomOptions, ObjectOptions):
        return options_of(kind, given)
    rest = dict(given)
    own = {name: rest.pop(name) for name in ("seed", "until") if name in rest}
    if kind is ObjectOptions:
        return ObjectOptions(rest, **own)
    return CustomOptions(tuple(f"{name}={value}" for name, value in rest.items()), **own)


def _entrants(agents: Any) -> tuple[str | AgentByObject, ...]:
    """Return the agents to compare, by name or as objects."""
    if isinstance(agents, str) or not isinstance(agents, Iterable):
        raise InvalidConfiguration(
            f"agents: got {short_repr(agents)}, expected a list of names and agents, or a mapping"
        )
    if isinstance(agents, Mapping):
        return tuple(AgentByObject(str(name), agent) for name, agent in agents.items())
    return tuple(
        agent if isinstance(agent, str) else AgentByObject(str(getattr(agent, "name", type(agent).__name__)), agent)
        for agent in agents
    )


@dataclass(frozen=True)
class ComparisonPlan:
    """Settings of a comparison; see :func:`compare`.

    Attributes
    ----------
    problem : str or ProblemByObject
        Problem to simulate.
    options : object
        Options of the problem.
    agents : tuple of str or AgentByObject
        Agents to compare.
    seeds : int, sequence of int, or None
        Number of seeds, or the seeds.
    baseline, metric, better, metrics, interval, out, workers, backend, address
        Same as in :func:`compare`.
    tell : callable or None
        Called with the workload and the runs before the runs start.
    command : str or None
        Command line, which is stored with the results.
    style, format : str
        Use and file format of the figures.
    """

    problem: str | ProblemByObject
    options: Any
    agents: tuple[str | AgentByObject, ...]
    seeds: int | Sequence[int] | None = None
    baseline: str | None = None
    metric: str | None = None
    better: Better | None = None
    metrics: tuple[Metric, ...] = ()
    interval: IntervalKind = "t"
    out: Path | None = None
    workers: int | None = None
    backend: Backend = "local"
    address: str | None = None
    tell: Callable[[ProblemInstance, Sequence[Run]], None] | None = field(default=None, repr=False)
    command: str | None = None
    style: Style = "screen"
    format: FigureFormat = "png"

    def run(self) -> ComparisonResult:
        """Simulate, compare, and write the results.

        Returns
        -------
        ComparisonResult
            Result of the comparison.

        Raises
        ------
        InvalidConfiguration
            If a name is unknown or an argument is out of range; raised before the first run.
        SweepInterrupted
            On Ctrl-C.
        DesimError
            If runs of all agents failed.
        """
        system = system_of(self.problem)
        self._check()
        if not system.is_own:
            self._named(system.name)  # raises before the workload is read
        source = None
        if system.is_own:
            own = self.problem.source if isinstance(self.problem, ProblemByObject) else user_code.load(system.name)
            source = identity_of(own)
        metric, own = self._measures()
        measured = "" if not own else _code_of(identity_of(own))
        setting = ProblemSetting(self.problem, system.name, self.options, source=source, metrics=own, measured=measured)
        instance = shared_instance(setting)
        instance, known = replace(instance, kind=instance.kind.with_metrics(own)), instance.kind
        entrants, baseline = self._named(instance.kind.name)
        for one in entrants:
            if isinstance(one, AgentByObject):
                resolve_agent(instance.make(one.agent), one.agent)
        runs = self._runs(entrants, instance, setting)
        if known is kinds().get(known.name):  # a user's own kind need not describe all metrics
            check_criterion(instance.kind, metric, self.better)
        if self.tell is not None:
            self.tell(instance, runs)
        summaries, failed = self._summaries(runs)
        agents = [one.policy for one in entrants if one.policy not in failed]
        comparison = compare_runs(
            summaries,
            baseline if baseline in agents else agents[0],
            instance.kind,
            interval=self.interval,
            metric=metric,
            better=self.better,
        )
        repairs = instance.report.as_dict() if instance.report is not None else None
        described = {
            "workload": {"name": instance.name, **instance.facts, "repairs": repairs},
            "command": self.command,
            "options": self._described(agents),
            **document(comparison, summaries),
        }
        look = {"style": self.style, "file_format": self.format}
        files = [] if self.out is None else _written(self.out, comparison, summaries, described, look)
        return ComparisonResult(comparison, tuple(summaries), failed, described, tuple(files))

    def _measures(self) -> tuple[str | None, tuple[Metric, ...]]:
        """Return the name of the metric that agents are ranked by, and all metrics of the user's own."""
        if self.metric is None or not user_code.is_reference(self.metric):
            return self.metric, self.metrics
        found = user_code.load(self.metric)
        if not isinstance(found, Metric):
            found = Metric(self.metric.partition(":")[2], better=self.better, measure=found)
        return found.name, (*self.metrics, found)

    def _check(self) -> None:
        """Check the arguments that can be checked without the problem."""
        if not self.agents:
            raise InvalidConfiguration("agents: got none, expected at least one")
        if self.workers is not None:
            check_int("workers", self.workers, least=1)
        if isinstance(self.seeds, int | np.integer):
            check_int("seeds", self.seeds, least=1)
        elif self.seeds is not None:
            numbers = list(self.seeds)
            for seed in numbers:
                check_int("seed", seed)
            if not numbers or len(set(numbers)) < len(numbers):
                raise InvalidConfiguration(
                    f"seeds: got {short_repr(self.seeds)}, expected at least one, without duplicates"
                )

    def _named(self, kind: str) -> tuple[list[AgentByName | AgentByObject], str]:
        """Return the agents under their full names, and the baseline; each name is resolved once."""
        full = {one: _full_name(kind, one) for one in self.agents if isinstance(one, str)}
        found: dict[str, AgentByName | AgentByObject] = {}
        for one in self.agents:
            name = full[one] if isinstance(one, str) else one.policy
            if name in found and not (isinstance(one, str) and isinstance(found[name], AgentByName)):
                raise InvalidConfiguration(
                    f"two agents have the name {name!r}; give them different names in a mapping, {{name: agent}}"
                )
            if isinstance(one, str):
                found[name] = AgentByName(name, name, kind)
            elif isinstance(one.agent, str):
                plugins.create_agent(kind, one.agent)
                found[name] = AgentByName(name, one.agent, kind)
            else:
                found[name] = one
        if self.baseline is None:
            return list(found.values()), "fcfs" if "fcfs" in found else next(iter(found))
        baseline = self.baseline if self.baseline in found else full.get(self.baseline, "")
        if not baseline and not any(isinstance(one, AgentByObject) for one in self.agents):
            baseline = _full_name(kind, self.baseline)
        if baseline not in found:
            near = did_you_mean(self.baseline, found)
            raise InvalidConfiguration(
                f"baseline: got {self.baseline!r}{near}, expected one of the agents {', '.join(found)}"
            )
        return list(found.values()), baseline

    def _runs(
        self, agents: Sequence[AgentByName | AgentByObject], instance: ProblemInstance, setting: ProblemSetting
    ) -> list[Run]:
        """Return all runs, seed by seed."""
        system = system_of(self.problem)
        if isinstance(self.seeds, int | np.integer) or self.seeds is None:
            first, count = system.seed_of(instance.options), int(SEEDS if self.seeds is None else self.seeds)
            if self.seeds is not None and count > 1 and not instance.is_drawn:
                raise InvalidConfiguration(
                    f"seeds: got {count}, but {instance.name} is the same for all seeds: nothing in it is drawn; leave "
                    "seeds out, or compare generated workloads"
                )
            seeds: Sequence[int] = range(first, first + (count if instance.is_drawn else 1))
        else:
            seeds = [int(seed) for seed in self.seeds]
        settings = {
            seed: replace(setting, kind=instance.kind.name, options=system.with_seed(instance.options, seed))
            for seed in seeds
        }
        return [Run(setting, agent, seed) for seed, setting in settings.items() for agent in agents]

    def _summaries(self, runs: Sequence[Run]) -> tuple[list[RunSummary], dict[str, list[Failed[Run]]]]:
        """Simulate the runs that are not stored; leave out agents with failed runs, unless all agents have some."""
        store = None if self.out is None else Store(self.out / "runs")
        if store is not None:
            make_directory(store.directory)
        workers = Workers(self.workers or os.cpu_count() or 1, self.backend, self.address)
        failed: dict[str, list[Failed[Run]]] = {}
        try:
            found = run_all(simulate_run, runs, store, workers=workers, title="comparison", with_records=True)
        except SweepFailed as failure:
            for one in failure.failed:
                failed.setdefault(one.task.agent.policy, []).append(one)
            if failure.found is None or {run.agent.policy for run in runs} <= set(failed):
                _raise(failure.failed[0])
            found = failure.found
        fair = [run for run in runs if run.agent.policy not in failed]
        return [
            _summary(run, found[run], found.records.get(run), is_reused=run in found.reused) for run in fair
        ], failed

    def _described(self, agents: Sequence[str]) -> dict[str, object]:
        """Return the settings as plain values."""
        mine = {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name not in ("options", "tell", "command", "metrics", "style", "format")
        }
        found = {"problem": str(self.problem)} | mine | {"problem": str(self.problem), "agents": ",".join(agents)}
        if isinstance(self.options, ObjectOptions):
            return found | {name: short_repr(value) for name, value in vars(self.options).items()}
        own: Any = self.options
        return found | asdict(own)


def _written(
    directory: Path,
    comparison: Comparison,
    summaries: Sequence[RunSummary],
    described: dict[str, object],
    look: Mapping[str, Any],
) -> list[Path]:
    """Write tables, page and figures; return the paths."""
    text = json.dumps(plain(described), indent=2, allow_nan=False) + "\n"
    path = directory / "comparison.json"
    write_atomically(path, lambda draft: draft.write_text(text))
    page = write_comparison(comparison, summaries, plain(described), directory / "view.html")
    figures = draw_comparison(comparison, summaries, directory, **look)
    return [write_csv(comparison, directory / "comparison.csv"), path, page, *figures]


def _summary(run: Run, outcome: dict[str, Any], records: Path | None, *, is_reused: bool) -> RunSummary:
    """Return the summary of a run; metrics are computed again if their options have changed."""
    metrics = outcome["metrics"]
    if records is not None and outcome["metric_options"] != plain(run.setting.metric_options):
        result = Result.load(records)
        result.own_metrics = run.setting.metrics
        metrics = plain(metrics_of_run(result, Scenario(run.setting.problem, run.agent.policy, run.setting.options)))
    return RunSummary(
        run.agent.policy,
        run.seed,
        {name: math.nan if value is None else value for name, value in metrics.items()},
        outcome["validation"],
        outcome["workload"],
        records,
        is_reused,
        outcome["stalled"],
    )


def _raise(failed: Failed[Run]) -> NoReturn:
    """Raise the error of a run; for unexpected errors, such as one in an agent, show where it happened."""
    if isinstance(failed.error, DesimError) and not isinstance(failed.error, WorkerCrashed):
        raise failed.error  # which names the run
    if not isinstance(failed.error, WorkerCrashed):
        print_note(failed.trace.rstrip())
    run = f"{failed.task.agent.policy}, seed {failed.task.seed}"
    raise DesimError(f"{run}: {failed.kind}: {failed.message}") from failed.error


def _full_name(kind: str, name: str) -> str:
    """Return the agent's own name if it denotes the same agent: ``easy`` becomes ``easy-fcfs``."""
    agent = plugins.create_agent(kind, name)
    full = str(getattr(agent, "name", name))
    if full == name or user_code.is_reference(name):
        return name
    try:
        other = plugins.create_agent(kind, full)
    except InvalidConfiguration:
        return name
    return full if type(other) is type(agent) and getattr(other, "name", None) == full else name
