"""``desim compare``: several agents on the same workloads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from desim import plugins
from desim.cli.comparison import Comparison, compare_runs, document, print_comparison, sentences, write_csv
from desim.cli.figures import draw_figures, make_directory, save_figure
from desim.cli.options import JsonFlag, MetricOptions, SystemOptions, WorkloadOptions
from desim.cli.output import plain, print_json, print_text, progress, remark
from desim.cli.run import print_repairs
from desim.cli.scenario import Scenario, cluster, shared_workload
from desim.cli.store import RunStore, code_digest, file_digest
from desim.cli.sweep import RunSummary, SweepInterrupted, sweep
from desim.exceptions import InvalidConfiguration
from desim.records import write_atomically
from desim.result import Result

__all__ = ["Compare"]


@dataclass(frozen=True)
class Compare:
    """Simulate several agents on the same workloads, check every run, and compare their metrics.

    Examples::

        desim compare batch --agents fcfs,sjf,easy-fcfs --seeds 10 --load 0.9 --out comparison
        desim compare batch --agents easy,easy-sjf --trace KTH-SP2-1996-2.swf.gz --baseline easy
        desim compare batch --agents fcfs,easy --cores 128 --workers 8 --json

    Finished runs are stored in DIR/runs at once: the same command again goes on where it was interrupted, and
    another one reuses what it can. A file is simulated once for each agent, unless cores fail at random.
    """

    problem: Positional[Literal["batch"]]
    """What to simulate."""
    agents: Annotated[str, arg(metavar="NAME,NAME,...")]
    """Who is compared; see `desim list`."""
    seeds: Annotated[int, arg(metavar="N")] = 10
    """How many seeds, from --seed on."""
    baseline: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="(default: fcfs, else the first)")] = None
    """The agent that the others are compared with, seed by seed."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: nowhere)")] = None
    """Where to write runs, comparison.csv, comparison.json, report.html and figures."""
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: one a processor)")] = None
    """How many processes to use."""
    as_json: JsonFlag = False
    """Print JSON only."""
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    system: SystemOptions = field(default_factory=SystemOptions)
    metrics: MetricOptions = field(default_factory=MetricOptions)

    def execute(self) -> int:
        """Simulate, compare, print, write; 1 if a run is not valid or was interrupted."""
        agents, baseline = self._agents()
        workload = shared_workload(self.problem, self.workload)
        repairs = workload.report.as_dict() if workload.report is not None else None
        scenarios, store = self._scenarios(agents, workload)
        if not self.as_json:
            _print_workload(workload, repairs, scenarios)
        summaries = self._sweep(scenarios, store)
        if summaries is None:
            return 1
        comparison = compare_runs(summaries, baseline)
        described = {
            "workload": {"name": workload.name, "cores": workload.num_cores, "repairs": repairs},
            "options": plain(replace(self, agents=",".join(agents))),
            **document(comparison, summaries),
        }
        files = self._write(comparison, summaries, described) if self.out is not None else []
        invalid = [summary for summary in summaries if not summary.validation["valid"]]
        if self.as_json:
            print_json(described)
        else:
            self._print(comparison, summaries, files)
        for summary in invalid:
            rules = ", ".join(summary.validation["counts"])
            remark(f"desim: {summary.scenario.agent}, seed {summary.scenario.seed}: not valid: {rules}")
        return 1 if invalid else 0

    def _agents(self) -> tuple[list[str], str]:
        """Return the full names of the agents and of the baseline."""
        names = [name.strip() for name in self.agents.split(",") if name.strip()]
        if not names:
            raise InvalidConfiguration(f"--agents is {self.agents!r}, want names separated by commas")
        agents = list(dict.fromkeys(self._full_name(name) for name in names))
        if self.baseline is None:
            return agents, "fcfs" if "fcfs" in agents else agents[0]
        baseline = self._full_name(self.baseline)
        if baseline not in agents:
            raise InvalidConfiguration(f"--baseline is {self.baseline}, want one of the agents {', '.join(agents)}")
        return agents, baseline

    def _full_name(self, name: str) -> str:
        return str(getattr(plugins.create_agent(self.problem, name), "name", name))

    def _scenarios(self, agents: Sequence[str], workload: plugins.Workload) -> tuple[list[Scenario], RunStore | None]:
        """Return all runs, seed by seed, and where they are stored; all arguments are checked here."""
        if self.seeds < 1 or (self.workers is not None and self.workers < 1):
            raise InvalidConfiguration(f"--seeds is {self.seeds}, --workers {self.workers}: want at least 1 of each")
        cluster(workload, self.system)
        from_file = workload.report is not None
        known = replace(self.workload, cores=workload.num_cores)
        if not from_file:
            known = replace(known, jobs=workload.num_jobs)
        count = 1 if from_file and self.system.mean_time_to_failure is None else self.seeds
        workloads = [replace(known, seed=known.seed + number) for number in range(count)]
        store = None
        if self.out is not None:
            make_directory(self.out / "runs")
            source = file_digest(Path(known.trace)) if from_file else known.trace
            store = RunStore(self.out / "runs", source, code_digest())
        scenarios = [Scenario(self.problem, agent, one, self.system) for one in workloads for agent in agents]
        return scenarios, store

    def _sweep(self, scenarios: Sequence[Scenario], store: RunStore | None) -> list[RunSummary] | None:
        workers = self.workers or os.cpu_count() or 1
        try:
            with progress("simulating", len(scenarios), "runs") as listen:
                return sweep(scenarios, self.metrics, store=store, workers=workers, listen=listen)
        except SweepInterrupted as interruption:
            kept = f" and stored in {store.directory}; the same command goes on from there" if store else ""
            remark(f"desim: interrupted: {interruption}{kept}")
            return None

    def _write(
        self, comparison: Comparison, summaries: Sequence[RunSummary], described: dict[str, object]
    ) -> list[Path]:
        """Write tables, report and figures; return the files."""
        from desim.plotting import compare_metrics, report

        assert self.out is not None
        text = json.dumps(plain(described), indent=2, allow_nan=False) + "\n"
        path = self.out / "comparison.json"
        write_atomically(path, lambda draft: draft.write_text(text))
        files = [write_csv(comparison, self.out / "comparison.csv"), path]
        first = [summary for summary in summaries if summary.scenario.seed == comparison.seeds[0]]
        results = {summary.scenario.agent: Result.load(str(summary.directory)) for summary in first}
        table, notes = comparison.table, sentences(comparison)
        title = f"{Path(self.workload.trace).name}: agents compared"
        files.append(report(results, self.out / "report.html", title=title, metrics=table, notes=notes))
        files += draw_figures(results, self.out)
        if len(table) > 1:
            bars = compare_metrics(table, unfinished=comparison.unfinished)[0].get_figure(root=True)
            assert bars is not None
            files.append(save_figure(bars, self.out / "metrics.png", "png"))
        return files

    def _print(self, comparison: Comparison, summaries: Sequence[RunSummary], files: Sequence[Path]) -> None:
        reused = sum(summary.reused for summary in summaries)
        valid = sum(summary.validation["valid"] for summary in summaries)
        print_comparison(comparison)
        print_text(f"{len(summaries)} runs, {reused} of them stored before; {valid} valid")
        for path in files:
            print_text(f"written: {path}")


def _print_workload(
    workload: plugins.Workload, repairs: Mapping[str, Any] | None, scenarios: Sequence[Scenario]
) -> None:
    first, last = scenarios[0].seed, scenarios[-1].seed
    seeds = (
        ""
        if repairs is not None and first == last
        else f", seeds {first} to {last}"
        if last > first
        else f", seed {first}"
    )
    print_text(f"{workload.name}: {workload.num_jobs:,} jobs on {workload.num_cores:,} cores{seeds}\n")
    if repairs is not None:
        print_repairs(repairs)
