"""Comparison of agents from Python, as on the command line: :func:`compare`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from desim.checks import check_choice, short_repr
from desim.core import ENGINES, Agent, Engine
from desim.exceptions import ComparisonWarning, InvalidConfiguration
from desim.plotting.axes import FigureFormat, Style
from desim.plotting.comparison_page import write_comparison
from desim.plotting.files import draw_figures
from desim.problem import Better, Metric, Problem
from desim.scenario import CustomOptions, system_of
from desim.sweep.comparison import Comparison, IntervalKind
from desim.sweep.options import options_of
from desim.sweep.simulated import AgentByObject, ObjectOptions, ProblemByObject
from desim.sweep.study import ComparisonPlan
from desim.sweep.workers import Backend

__all__ = ["compare", "with_pages"]


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
    engine: Engine = "auto",
    **options: Any,
) -> Comparison:
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
        a given problem and for a workload file. Refused where all seeds give the same, and for windows.
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
    engine : {"auto", "simpy", "compiled"}
        What simulates the runs, see :func:`desim.simulate`. Their records do not depend on it, so that a stored run is
        reused whatever simulated it.
    **options
        Options of the problem as in ``desim compare PROBLEM --help``, such as ``cores=64, load=0.9``; for your own
        function, its arguments, besides ``seed`` and ``until``. With ``split="7d"`` or ``sample="20x2000jobs"``, runs
        are paired by window of the workload, not by seed. With ``windows=40``, your function is called with
        ``window=0`` to ``window=39``.

    Returns
    -------
    Comparison
        Tables, figures and runs; a ``ComparisonWarning`` reports problems with runs.

    Raises
    ------
    InvalidConfiguration
        If a name is unknown or an argument is out of range; raised before the first run.
    KeyboardInterrupt
        On Ctrl-C; finished runs are stored if ``out`` is given.
    DesimError
        If runs of all agents failed.

    Examples
    --------
    >>> found = compare("batch", ["fcfs", "easy"], seeds=2, workers=1, cores=32, jobs=50, load=0.9)
    >>> found
    Comparison(batch: fcfs, easy-fcfs; 2 seeds, best by waiting_time_mean: easy-fcfs)
    >>> found.table.columns[:4]
    ['agent', 'metric', 'seeds', 'mean']
    """
    if isinstance(problem, str):
        source: str | ProblemByObject = problem
        system = system_of(problem)
    else:
        source = system = ProblemByObject(_name_of(problem), _problem_or_function(problem))
    chosen: Any = seeds if seeds is not None or not isinstance(problem, Problem) else 1
    plan = ComparisonPlan(
        problem=source,
        options=_options(system.options, options),
        agents=_entrants(agents),
        seeds=chosen,
        baseline=baseline,
        metric=metric,
        better=better,
        metrics=tuple(metrics),
        interval=interval,
        out=None if out is None else Path(out),
        workers=workers,
        backend=backend,
        address=address,
        engine=check_choice("engine", engine, ENGINES),
    )
    found = with_pages(plan.run(), plan.out)
    for text in found.issues:
        warnings.warn(text, ComparisonWarning, 2)
    return found


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
    """Return the options of a problem; those of a user's own function are its arguments, with three exceptions."""
    if kind not in (CustomOptions, ObjectOptions):
        return options_of(kind, given)
    rest = dict(given)
    own = {name: rest.pop(name) for name in ("seed", "until", "windows") if name in rest}
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


def with_pages(
    found: Comparison, directory: Path | None, *, style: Style = "screen", file_format: FigureFormat = "png"
) -> Comparison:
    """Write the page and figures of a comparison beside its tables.

    Parameters
    ----------
    found : Comparison
        Comparison whose runs are stored.
    directory : Path or None
        Directory of the comparison; None writes nothing.
    style : {"screen", "paper", "paper-wide"}
        Width of the figures.
    file_format : {"png", "svg", "pdf"}
        File format of the figures.

    Returns
    -------
    Comparison
        The comparison, with the paths of the new files.
    """
    if directory is None:
        return found
    page = write_comparison(found, directory / "view.html")
    figures = draw_figures(found, directory, style=style, file_format=file_format)
    return replace(found, files=(*found.files, page, *figures))
