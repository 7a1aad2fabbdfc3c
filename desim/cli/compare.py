"""``desim compare``: several agents on the same workloads."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

from tyro.conf import arg

from desim import own_code, plugins
from desim.checks import did_you_mean
from desim.cli.comparison import heading, print_comparison, sentences, tables
from desim.cli.figures import draw_figures, make_directory, save_figure
from desim.cli.options import JsonFlag, listed, problem_of
from desim.cli.output import plain, print_json, print_text, remark
from desim.cli.run import print_repairs
from desim.cli.view import write_comparison
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.problem import Better, kind_of, kinds
from desim.records import write_atomically
from desim.result import Result
from desim.scenario import (
    Instance,
    Scenario,
    measure,
    metrics_of_run,
    replay,
    shared_instance,
    system_of,
    workload_digest,
)
from desim.sweep import (
    Backend,
    Failed,
    Run,
    Store,
    SweepFailed,
    SweepInterrupted,
    WorkerDied,
    Workers,
    perform_all,
    settings_of,
)
from desim.sweep.comparison import (
    Comparison,
    IntervalKind,
    RunSummary,
    check_criterion,
    compare_runs,
    document,
    write_csv,
)
from desim.sweep.digest import agent_digest, file_digest, source_digest

__all__ = ["Compare", "Compared", "simulate_run"]


@dataclass(frozen=True)
class System:
    """A problem with its options: the setting of a run.

    Attributes
    ----------
    problem : str
        By name.
    kind : str
        Whose agents there are.
    options : object
        Those of the problem: workload, seed, system, metrics.
    """

    problem: str
    kind: str
    options: Any

    def identity(self) -> dict[str, Any]:
        """Return what tells runs apart: files by their content, nothing about metrics, and the code."""
        system = system_of(self.problem)
        modules = ["desim.core", type(system).__module__, *plugins.modules(self.kind)]
        kind = kind_of(self.kind)
        modules += [part.partition(":")[0] for part in (kind.metrics_from, kind.rules_from) if isinstance(part, str)]
        own = [self.problem.partition(":")[0]] if own_code.is_reference(self.problem) else []
        code = source_digest(*modules, *own)
        return {"problem": self.problem, "options": plain(_by_content(system.identity(self.options))), "code": code}


@dataclass(frozen=True)
class Named:
    """An agent by its name."""

    policy: str

    def identity(self) -> dict[str, Any]:
        """Return what tells it from others: its name, and the code or weights that are no part of desim."""
        return {"policy": self.policy, "code": agent_digest(self.policy)}


def simulate_run(run: Run, out: Path | None) -> dict[str, Any]:
    """Simulate, check and measure.

    Parameters
    ----------
    run : Run
        Of a :class:`System` and a :class:`Named` agent.
    out : Path or None
        Where its records are written to.

    Returns
    -------
    dict
        ``metrics``, and the ``metric_options`` that they are of; ``validation``; ``workload``, a digest of what does
        not depend on the agent; ``stalled``, why it has come to nothing, if it has.
    """
    scenario = Scenario(run.setting.problem, run.agent.policy, run.setting.options)
    try:
        instance = shared_instance(scenario.problem, scenario.options)
        result = replay(scenario, instance, out=out)
        if result.info["status"] == "interrupted":
            raise KeyboardInterrupt
        found = measure(result, scenario, instance)
        return {
            "metrics": found.metrics,
            "metric_options": scenario.metric_options,
            "validation": found.validation,
            "workload": workload_digest(result, instance),
            "stalled": result.info.get("stalled", ""),
        }
    except DesimError as error:
        kind = DesimError if isinstance(error, RecordError) else type(error)  # arguments are not to blame
        raise kind(f"{scenario.agent}, seed {run.seed}: {error}") from error


@dataclass(frozen=True)
class Compared:
    """What has come of a comparison.

    Attributes
    ----------
    comparison : Comparison
        Of the agents that have not failed.
    summaries : tuple of RunSummary
        Their runs.
    failed : mapping of str to sequence of Failed
        The runs that have failed, by agent.
    described : dict
        All as plain values.
    files : tuple of Path
        What was written.
    """

    comparison: Comparison
    summaries: tuple[RunSummary, ...]
    failed: Mapping[str, Sequence[Failed[Run]]]
    described: dict[str, object]
    files: tuple[Path, ...] = ()

    def told(self) -> int:
        """Tell on standard error what is wrong; return the exit status."""
        return max(_remarks(self.comparison, self.summaries), _told(self.failed, self.comparison.baseline))


@dataclass(frozen=True)
class Compare:
    """Simulate several agents on the same workloads, check every run, and compare their metrics.

    Examples::

        desim compare batch --agents fcfs,sjf,easy-fcfs --seeds 10 --load 0.9 --out comparison
        desim compare batch --agents easy,easy-sjf --trace KTH-SP2-1996-2.swf.gz --baseline easy
        desim compare batch --agents fcfs,easy --load 0.6,0.7,0.8,0.9 --out sweep
        desim compare dag --agents heft,rank_up-deft,fifo-eft --metric turnaround_time_mean --interval bootstrap
        desim compare deferrable --agents fifo,earliest-deadline,list-plan --workload fluctuating
        desim compare multiserver --agents oga-reactive,drf,fairness --seeds 5 --slots 2000
        desim compare batch --agents my_agents:Shortest,fcfs
        desim compare my_problem:make --agents my_agents:A,my_agents:B --set size=3

    `desim compare PROBLEM --help` has the options of a problem. Each seed stands for a workload, which is drawn before
    any agent is asked: all agents meet the same. Finished runs are stored in DIR/runs at once: the same command again
    goes on where it was interrupted, and another one reuses what it can. A file of batch is simulated once for each
    agent, unless cores fail at random. Several values of an option of the problem, such as --load 0.6,0.7, make a
    comparison each, and one table and figure over all.
    """

    problem: ClassVar[str | None] = None
    agents: Annotated[str, arg(metavar="NAME,NAME,...")]
    """Who is compared: see `desim list`, or MODULE:NAME of your own."""
    seeds: Annotated[int, arg(metavar="N")] = 10
    """How many seeds, from --seed on."""
    baseline: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="(default: fcfs, else the first)")] = None
    """The agent that the others are compared with, seed by seed."""
    metric: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="(default: the main one)")] = None
    """What agents are ranked by."""
    better: Annotated[Better | None, arg(help_behavior_hint="(default: as is known of the metric)")] = None
    """Which values of it are better."""
    interval: IntervalKind = "t"
    """What confidence intervals rest on: Student's t distribution, or the bootstrap, which asks for none."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: nowhere)")] = None
    """Where to write runs, comparison.csv, comparison.json, report.html, an interactive view.html, and figures."""
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: one a processor)")] = None
    """How many processes to use."""
    backend: Backend = "local"
    """Where they run: on this machine, or on a Ray or Dask cluster."""
    address: Annotated[str | None, arg(metavar="HOST:PORT", help_behavior_hint="(default: one is started)")] = None
    """Of the cluster."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Simulate, compare, print, write; 1 if a run is not valid, has failed or was interrupted."""
        found = self.compared()
        if found is None:
            return 1
        if self.as_json:
            print_json(found.described)
        else:
            _print(found.comparison, found.summaries, found.files)
        return found.told()

    def compared(self) -> Compared | None:
        """Simulate, compare, write; None after an interruption, which is told."""
        problem, options = problem_of(self), getattr(self, "options", None)
        agents, baseline = self._agents(None if system_of(problem).is_own else problem)
        instance = shared_instance(problem, options)
        if system_of(problem).is_own:
            agents, baseline = self._agents(instance.kind.name)
        runs = self._runs(problem, agents, instance)
        if instance.kind is kinds().get(instance.kind.name):  # of users, not all metrics need be described
            check_criterion(instance.kind, self.metric, self.better)
        if not self.as_json:
            _print_workload(instance, runs)
        try:
            summaries, failed = self._summaries(runs)
        except SweepInterrupted as interruption:
            remark(f"desim: interrupted: {interruption}")
            return None
        agents = [agent for agent in agents if agent not in failed]
        baseline = baseline if baseline in agents else agents[0]
        comparison = compare_runs(
            summaries,
            baseline,
            instance.kind,
            interval=self.interval,
            metric=self.metric,
            better=self.better,
        )
        repairs = instance.report.as_dict() if instance.report is not None else None
        described = {
            "workload": {"name": instance.name, **instance.facts, "repairs": repairs},
            "options": self._described(problem, agents),
            **document(comparison, summaries),
        }
        files = self._write(comparison, summaries, described, instance) if self.out is not None else []
        return Compared(comparison, tuple(summaries), failed, described, tuple(files))

    def _agents(self, kind: str | None) -> tuple[list[str], str]:
        """Return the names of the agents and of the baseline; each is created once if the problem is known."""
        names = listed(self.agents)
        if not names:
            raise InvalidConfiguration(f"--agents is {self.agents!r}, want names separated by commas")
        full = {name: name if kind is None else _full_name(kind, name) for name in [*names, self.baseline or names[0]]}
        agents = list(dict.fromkeys(full[name] for name in names))
        if self.baseline is None:
            return agents, "fcfs" if "fcfs" in agents else agents[0]
        if full[self.baseline] not in agents:
            near = did_you_mean(self.baseline, agents)
            raise InvalidConfiguration(
                f"--baseline is {self.baseline}{near}, want one of the agents {', '.join(agents)}"
            )
        return agents, full[self.baseline]

    def _runs(self, problem: str, agents: Sequence[str], instance: Instance) -> list[Run]:
        """Return all runs, seed by seed."""
        if self.seeds < 1 or (self.workers is not None and self.workers < 1):
            raise InvalidConfiguration(f"--seeds is {self.seeds}, --workers {self.workers}: want at least 1 of each")
        system, count = system_of(problem), self.seeds if instance.is_drawn else 1
        first = system.seed_of(instance.options)
        return [
            Run(System(problem, instance.kind.name, system.with_seed(instance.options, seed)), Named(agent), seed)
            for seed in range(first, first + count)
            for agent in agents
        ]

    def _summaries(self, runs: Sequence[Run]) -> tuple[list[RunSummary], dict[str, list[Failed[Run]]]]:
        """Simulate what is not stored yet; leave agents out of which a run fails, unless all do."""
        store = None if self.out is None else Store(self.out / "runs")
        if store is not None:
            make_directory(store.directory)
        workers = Workers(self.workers or os.cpu_count() or 1, self.backend, self.address)
        failed: dict[str, list[Failed[Run]]] = {}
        try:
            found = perform_all(simulate_run, runs, store, workers=workers, title="comparison", with_records=True)
        except SweepFailed as failure:
            for one in failure.failed:
                failed.setdefault(one.task.agent.policy, []).append(one)
            if failure.found is None or {run.agent.policy for run in runs} <= set(failed):
                _raise(failure.failed[0])
            found = failure.found
        fair = [run for run in runs if run.agent.policy not in failed]
        return [_summary(run, found[run], store, is_reused=run in found.reused) for run in fair], failed

    def _described(self, problem: str, agents: Sequence[str]) -> dict[str, object]:
        """Return the options as plain values."""
        own: Any = getattr(self, "options", None)
        mine = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "options"}
        return {"problem": problem} | mine | {"agents": ",".join(agents)} | asdict(own)

    def _write(
        self,
        comparison: Comparison,
        summaries: Sequence[RunSummary],
        described: dict[str, object],
        instance: Instance,
    ) -> list[Path]:
        """Write tables, report and figures; return the files."""
        from desim.plotting.comparison import compare_metrics
        from desim.plotting.reports import Comparison as Compared
        from desim.plotting.reports import report

        assert self.out is not None
        text = json.dumps(plain(described), indent=2, allow_nan=False) + "\n"
        path = self.out / "comparison.json"
        write_atomically(path, lambda draft: draft.write_text(text))
        files = [write_csv(comparison, self.out / "comparison.csv"), path]
        first = [summary for summary in summaries if summary.seed == comparison.seeds[0]]
        results = {summary.agent: Result.load(str(summary.directory)) for summary in first}
        criterion = comparison.criterion
        by = "" if criterion is None else heading(comparison, criterion.metric)
        several = len(comparison.seeds) > 1
        page = report(
            results,
            self.out / "report.html",
            kind=instance.kind,
            title=f"{instance.name}: agents compared",
            metrics=comparison.table,
            notes=sentences(comparison),
            comparison=Compared(tables(comparison), comparison.ranking, comparison.profile, by) if several else None,
        )
        interactive = write_comparison(comparison, summaries, plain(described), self.out / "view.html")
        files += [page, interactive, *draw_figures(results, self.out, instance.kind)]
        if len(comparison.table) > 1:
            ends = {
                agent: {name: (item.low, item.high) for name, item in row.items()}
                for agent, row in comparison.means.items()
            }
            axes = compare_metrics(
                comparison.table, problem=instance.kind, unfinished=comparison.unfinished, intervals=ends
            )
            bars = axes[0].get_figure(root=True)
            assert bars is not None
            files.append(save_figure(bars, self.out / "metrics.png", "png"))
        return files


def _summary(run: Run, outcome: dict[str, Any], store: Store | None, *, is_reused: bool) -> RunSummary:
    """Return what a comparison needs of a run, measured anew if the metrics shall cover something else."""
    directory = None
    scenario = Scenario(run.setting.problem, run.agent.policy, run.setting.options)
    if store is not None:
        settings = settings_of(simulate_run, run)
        directory = store.records(settings)
        if outcome["metric_options"] != plain(scenario.metric_options):
            measured = metrics_of_run(Result.load(directory), scenario)
            outcome = plain(outcome | {"metrics": measured, "metric_options": scenario.metric_options})
            store.save(settings, outcome)
    metrics = {name: math.nan if value is None else value for name, value in outcome["metrics"].items()}
    return RunSummary(
        run.agent.policy,
        run.seed,
        metrics,
        outcome["validation"],
        outcome["workload"],
        directory,
        is_reused,
        outcome.get("stalled", ""),  # those of earlier versions say nothing
    )


def _told(failed: Mapping[str, Sequence[Failed[Run]]], baseline: str) -> int:
    """Tell which agents are left out and why; return the exit status."""
    for agent, runs in failed.items():
        first = runs[0]
        if not isinstance(first.error, DesimError):
            remark(first.trace.rstrip())
        seeds = ", ".join(str(one.task.seed) for one in runs)
        remark(f"desim: {agent} has failed and is left out (seed {seeds}): {first.kind}: {first.message}")
    if failed:
        remark(f"desim: compared with {baseline}: the other agents went on")
    return int(bool(failed))


def _raise(failed: Failed[Run]) -> NoReturn:
    """Raise the error of a run; of what was not expected, such as an error in an agent, show where it happened."""
    if isinstance(failed.error, DesimError) and not isinstance(failed.error, WorkerDied):
        raise failed.error  # which names the run
    if not isinstance(failed.error, WorkerDied):
        remark(failed.trace.rstrip())
    run = f"{failed.task.agent.policy}, seed {failed.task.seed}"
    raise DesimError(f"{run}: {failed.kind}: {failed.message}") from failed.error


def _full_name(kind: str, name: str) -> str:
    """Return the name that the agent gives itself, if that leads to the same agent: ``easy`` means ``easy-fcfs``."""
    agent = plugins.create_agent(kind, name)
    full = str(getattr(agent, "name", name))
    if full == name or own_code.is_reference(name):
        return name
    try:
        other = plugins.create_agent(kind, full)
    except InvalidConfiguration:
        return name
    return full if type(other) is type(agent) and getattr(other, "name", None) == full else name


def _print_workload(instance: Instance, runs: Sequence[Run]) -> None:
    first, last = runs[0].seed, runs[-1].seed
    seeds = f", seeds {first} to {last}" if last > first else f", seed {first}" if instance.report is None else ""
    print_text(f"{instance.name}: {instance.size}{seeds}\n")
    if instance.report is not None:
        print_repairs(instance.report.as_dict())


def _print(comparison: Comparison, summaries: Sequence[RunSummary], files: Sequence[Path]) -> None:
    reused = sum(summary.reused for summary in summaries)
    checked = [summary.validation["valid"] for summary in summaries if summary.validation["valid"] is not None]
    print_comparison(comparison)
    valid = f"{sum(checked)} valid" if checked else "not checked"
    print_text(f"{len(summaries)} runs, {reused} of them stored before; {valid}")
    for path in files:
        print_text(f"written: {path}")


def _remarks(comparison: Comparison, summaries: Sequence[RunSummary]) -> int:
    """Tell on standard error what is wrong; return the exit status."""
    for text in comparison.unequal:
        remark(f"desim: {text}")
    for summary in summaries:
        if summary.stalled:
            remark(f"desim: {summary.agent}, seed {summary.seed}: stalled: {summary.stalled}")
    invalid = [summary for summary in summaries if summary.validation["valid"] is False]
    for summary in invalid:
        rules = ", ".join(summary.validation["counts"])
        remark(f"desim: {summary.agent}, seed {summary.seed}: not valid: {rules}")
    return 1 if invalid else 0


def _by_content(value: Any) -> Any:
    """Put digests of files in the place of their paths."""
    if isinstance(value, Path):
        return file_digest(value)
    if isinstance(value, dict):
        return {name: _by_content(part) for name, part in value.items()}
    return [_by_content(part) for part in value] if isinstance(value, list) else value
