"""Comparison of agents: which are compared on what, how the runs come about, and what comes of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
from tyro.conf import arg

from desim import plugins, user_code
from desim.agent_resolution import resolve_agent
from desim.checks import check_int, did_you_mean, short_repr
from desim.core import Engine
from desim.exceptions import DesimError, InvalidConfiguration
from desim.files import write_atomically
from desim.notes import plain, print_note
from desim.problem import Better, Metric, kinds
from desim.records import make_directory
from desim.scenario import ProblemInstance, system_of
from desim.sweep.comparison import Comparison, IntervalKind, check_criterion, compare_runs, write_csv
from desim.sweep.digest import source_digest
from desim.sweep.identity import Identity, identity_of
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
from desim.sweep.study_file import flat, write_study
from desim.sweep.workers import MOST_WORKERS, Backend, Failed, WorkerCrashed, Workers

__all__ = ["ComparisonPlan", "StudyOptions"]

#: Default number of seeds.
SEEDS = 10
#: Largest number of seeds.
MOST_SEEDS = 1_000_000


def _code_of(identity: Identity) -> str:
    """Return a digest of an object with the code of its modules."""
    modules = [name for name in identity.modules if name not in (DYNAMIC, "__main__")]
    return f"{identity.digest} {source_digest(*modules, as_in_files=True)}"


@dataclass(frozen=True)
class StudyOptions:
    """Options of a comparison besides its problem and agents: on the command line, in a file, and in Python."""

    seeds: Annotated[
        int | tuple[int, ...] | None,
        arg(metavar="N ...", help_behavior_hint="(default: 10; for a workload file 1)"),
    ] = None
    """Number of seeds, counted from --seed, or the seeds themselves, if several are given; more than one is refused
    where nothing is drawn, and any for windows."""
    baseline: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="(default: fcfs, else the first)")] = None
    """Agent that the others are compared with, seed by seed."""
    metric: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="(default: the problem's main metric)")] = None
    """Metric that agents are ranked by; MODULE:NAME of your desim.Metric, or of a function of the result."""
    better: Annotated[Better | None, arg(help_behavior_hint="(default: as the metric is defined)")] = None
    """Whether lower or higher values of the metric are better."""
    interval: IntervalKind = "t"
    """Method for confidence intervals: Student's t distribution, or the bootstrap, which assumes no distribution."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: nothing is written)")] = None
    """Directory for runs, comparison.csv, comparison.json, the interactive page view.html, figures,
    and study.toml, with which `desim compare DIR/study.toml` repeats the comparison."""
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: one per processor)")] = None
    """Number of worker processes."""
    backend: Backend = "local"
    """Where runs are simulated: on this machine, or on a Ray or Dask cluster."""
    address: Annotated[str | None, arg(metavar="HOST:PORT", help_behavior_hint="(default: starts a cluster)")] = None
    """Address of the cluster's scheduler."""
    engine: Engine = "auto"
    """What simulates the runs, whose records do not depend on it: auto compiles long runs of batch where it can."""

    def study_options(self) -> dict[str, Any]:
        """Return these options by name."""
        return {item.name: getattr(self, item.name) for item in fields(StudyOptions)}


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan(StudyOptions):
    """Settings of a comparison; see :func:`desim.compare`.

    Attributes
    ----------
    problem : str or ProblemByObject
        Problem to simulate.
    options : object
        Options of the problem.
    agents : tuple of str or AgentByObject
        Agents to compare.
    metrics : tuple of Metric
        Metrics of a user's own.
    tell : callable or None
        Called with the workload and the runs before the runs start.
    command : str or None
        Command line, which is stored with the results.
    look : dict
        How the results are shown, which is stored in ``study.toml`` as well.
    """

    problem: str | ProblemByObject
    options: Any
    agents: tuple[str | AgentByObject, ...]
    metrics: tuple[Metric, ...] = ()
    tell: Callable[[ProblemInstance, Sequence[Run]], None] | None = field(default=None, repr=False)
    command: str | None = None
    look: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Comparison:
        """Simulate, compare, and write the results.

        Returns
        -------
        Comparison
            Result of the comparison.

        Raises
        ------
        InvalidConfiguration
            If a name is unknown or an argument is out of range; raised before the first run.
        KeyboardInterrupt
            On Ctrl-C.
        DesimError
            If runs of all agents failed.
        """
        system = system_of(self.problem)
        self._check()
        named = None if system.is_own else self._named(system.name)  # raises before the workload is read
        source = None
        if system.is_own:
            own = self.problem.source if isinstance(self.problem, ProblemByObject) else user_code.load(system.name)
            source = identity_of(own)
        metric, own = self._measures()
        measured = "" if not own else _code_of(identity_of(own))
        known_by: dict[str, Any] = {"source": source, "metrics": own, "measured": measured}
        setting = ProblemSetting(self.problem, system.name, self.options, **known_by, engine=self.engine)
        instance = shared_instance(setting)
        instance, known = replace(instance, kind=instance.kind.with_metrics(own)), instance.kind
        entrants, baseline = named or self._named(instance.kind.name)
        for one in entrants:
            made = one.made(instance.kind.name)
            problem = instance.make(made)
            if isinstance(one, AgentByObject):
                resolve_agent(problem, made)
            if disregarded := problem.for_agent(made).disregarded(made):
                print_note(f"desim: {disregarded}")
        runs = self._runs(entrants, instance, setting)
        if not system.is_own or known is kinds().get(known.name):  # a user's own kind need not describe all metrics
            check_criterion(instance.kind, metric, self.better)
        if self.tell is not None:
            self.tell(instance, runs)
        done, failed = self._done(runs)
        if self.seeds is not None and len(runs) > len(entrants) and _are_alike(done):
            raise InvalidConfiguration(
                f"seeds: got {short_repr(self.seeds)}, but all of them gave the same runs: nothing is drawn in "
                f"{instance.name}, nor by an agent; leave seeds out, or compare windows"
            )
        agents = [one.policy for one in entrants if one.policy not in failed]
        repairs = instance.report.as_dict() if instance.report is not None else None
        found = compare_runs(
            done,
            baseline if baseline in agents else agents[0],
            instance.kind,
            interval=self.interval,
            metric=metric,
            better=self.better,
            failed=failed,
            workload={"name": instance.name, **instance.facts, "repairs": repairs},
            command=self.command,
            options=self._described(agents),
        )
        found = replace(found, study=self._study(entrants, found.seeds, instance))
        return found if self.out is None else replace(found, files=_written(self.out, found))

    def _study(
        self, entrants: Sequence[AgentByName | AgentByObject], seeds: Sequence[int], instance: ProblemInstance
    ) -> dict[str, Any]:
        """Return all that repeats the comparison; empty if something has no name that a file could state."""
        named = [one.policy for one in entrants if isinstance(one, AgentByName) and one.policy == one.name]
        if len(named) < len(entrants) or isinstance(self.problem, ProblemByObject) or self.metrics:
            return {}
        system = system_of(self.problem)
        first = system.seed_of(instance.options)
        is_counted = list(seeds) == list(range(first, first + len(seeds)))
        known = {name: getattr(self, name) for name in ("baseline", "metric", "better", "interval")}
        shared: dict[str, Any] = {"problem": self.problem, "agents": named}
        if instance.num_windows is None:
            shared["seeds"] = len(seeds) if is_counted else list(seeds)
        return shared | known | self.look | dict(flat(self.options, system.identity(self.options)))

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
            check_int("workers", self.workers, least=1, most=MOST_WORKERS)
        if isinstance(self.seeds, int | np.integer):
            check_int("seeds", self.seeds, least=1, most=MOST_SEEDS)
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
        found: dict[str, AgentByName | AgentByObject] = {}
        full: dict[str, str] = {}
        for one in self.agents:
            entrant = AgentByName.of(kind, one) if isinstance(one, str) else one
            if isinstance(entrant, AgentByObject) and isinstance(entrant.agent, str):
                entrant = AgentByName.of(kind, entrant.agent, entrant.policy)
            name = entrant.policy
            if name in found and not (isinstance(one, str) and isinstance(found[name], AgentByName)):
                raise InvalidConfiguration(
                    f"two agents have the name {name!r}; give them different names in a mapping, {{name: agent}}"
                )
            found[name] = entrant
            full |= {one: name} if isinstance(one, str) else {}
        if self.baseline is None:
            return list(found.values()), "fcfs" if "fcfs" in found else next(iter(found))
        baseline = self.baseline if self.baseline in found else full.get(self.baseline, "")
        if not baseline and not any(isinstance(one, AgentByObject) for one in self.agents):
            baseline, _ = plugins.named_agent(kind, self.baseline)
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
        if instance.num_windows is not None:
            if self.seeds is not None:
                raise InvalidConfiguration(
                    f"seeds: got {short_repr(self.seeds)}, but the {instance.num_windows} windows of {instance.name} "
                    "are compared; leave seeds out"
                )
            setting = replace(setting, kind=instance.kind.name, options=instance.options)
            windows = [replace(setting, window=number) for number in range(instance.num_windows)]
            return [Run(one, agent, number) for number, one in enumerate(windows) for agent in agents]
        asked = len(self.seeds) if isinstance(self.seeds, Sequence) else self.seeds or 1
        if asked > 1 and not instance.is_drawn:
            raise InvalidConfiguration(
                f"seeds: got {short_repr(self.seeds)}, but {instance.name} is the same for all seeds: nothing in it is "
                "drawn; leave seeds out, or compare windows of it (split) or generated workloads"
            )
        if isinstance(self.seeds, int | np.integer) or self.seeds is None:
            first, count = system.seed_of(instance.options), int(SEEDS if self.seeds is None else self.seeds)
            seeds: Sequence[int] = range(first, first + (count if instance.is_drawn else 1))
        else:
            seeds = [int(seed) for seed in self.seeds]
        settings = {
            seed: replace(setting, kind=instance.kind.name, options=system.with_seed(instance.options, seed))
            for seed in seeds
        }
        return [Run(setting, agent, seed) for seed, setting in settings.items() for agent in agents]

    def _done(self, runs: Sequence[Run]) -> tuple[list[Run], dict[str, list[Failed[Run]]]]:
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
                failed.setdefault(one.task.policy, []).append(one)
            if failure.found is None or {run.policy for run in runs} <= set(failed):
                _raise(failure.failed[0])
            found = failure.found
        return [_measured(run) for run in found if run.policy not in failed], failed

    def _described(self, agents: Sequence[str]) -> dict[str, object]:
        """Return the settings as plain values."""
        mine = {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name not in ("options", "tell", "command", "metrics", "look")
        }
        found = {"problem": str(self.problem)} | mine | {"problem": str(self.problem), "agents": ",".join(agents)}
        if isinstance(self.options, ObjectOptions):
            return found | {name: short_repr(value) for name, value in vars(self.options).items()}
        own: Any = self.options
        return found | asdict(own)


def _written(directory: Path, found: Comparison) -> tuple[Path, ...]:
    """Write all results as plain values, and as a table; return the paths."""
    text = json.dumps(plain(found.described), indent=2, allow_nan=False) + "\n"
    path = directory / "comparison.json"
    write_atomically(path, lambda draft: draft.write_text(text))
    files = write_csv(found.table, directory / "comparison.csv"), path
    return (*files, write_study(found.study, directory)) if found.study else files


def _are_alike(runs: Sequence[Run]) -> bool:
    """Return whether the runs of each agent have the same workload and the same metrics."""
    found: dict[str, set[str]] = {}
    for one in runs:
        found.setdefault(one.policy, set()).add(f"{one.workload} {one.metrics}")
    return all(len(different) == 1 for different in found.values())


def _measured(run: Run) -> Run:
    """Return a run with its metrics, which are computed again if their options have changed."""
    if run.records is None or run.outcome["metric_options"] == plain(run.setting.metric_options):
        return run
    result, kind = run.load(), run.setting.kind
    problem = shared_instance(run.setting).make(run.agent.made(kind))
    result.own_metrics = (*problem.own_metrics, *run.setting.metrics)
    return replace(run, outcome=run.outcome | {"metrics": plain(run.setting.metrics_of(result))})


def _raise(failed: Failed[Run]) -> NoReturn:
    """Raise the error of a run; for unexpected errors, such as one in an agent, show where it happened."""
    if isinstance(failed.error, DesimError) and not isinstance(failed.error, WorkerCrashed):
        raise failed.error  # which names the run
    if not isinstance(failed.error, WorkerCrashed):
        print_note(failed.trace.rstrip())
    run = f"{failed.task.policy}, {failed.task.setting.pair} {failed.task.seed}"
    raise DesimError(f"{run}: {failed.kind}: {failed.message}") from failed.error
