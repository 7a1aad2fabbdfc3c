"""``desim evaluate``: simulate agents on fixed episodes of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from desim import plugins
from desim.cli.options import JsonFlag, listed_agents
from desim.cli.output import print_json, print_table
from desim.core import simulate
from desim.exceptions import InvalidConfiguration
from desim.formatting import heading
from desim.notes import progress
from desim.problem import kind_of
from desim.problems.batch.options import BatchOptions, WorkloadOptions
from desim.statistics import Estimate, compare, summarize
from desim.sweep import Failed, Workers, run_tasks
from desim.sweep.simulated import ProblemSetting, shared_instance

__all__ = ["Evaluate"]

METRICS = (
    "waiting_time_mean",
    "waiting_time_p99",
    "waiting_time_max",
    "queue_length_mean",
    "utilization",
    "queued_load_mean",
)


@dataclass(frozen=True)
class Evaluate:
    """Simulate agents on the same episodes of a workload, and print means and paired differences.

    An episode starts at a random point of the trace with an empty cluster. With open arrivals it ends when the given
    number of jobs has started, while more jobs keep arriving. With closed arrivals only that number of jobs arrives,
    and it ends when all have finished. Jobs still queued at the end count with their waiting time so far.

    Examples::

        desim evaluate batch --agents split-window:desim-m32-t16,backfilling-sjf,easy-fcfs
        desim evaluate batch --trace lublin_256.swf --agents split-window:out/split-window-16-16,window-shortest-16-16
    """

    problem: Positional[Literal["batch"]]
    """Problem to simulate."""
    agents: Annotated[str, arg(metavar="A,B,...")] = "backfilling-sjf,easy-fcfs"
    """Agents to compare, separated by commas; the others are compared with the first. See `desim list`."""
    episodes: Annotated[int, arg(metavar="N")] = 50
    """Number of episodes."""
    episode_jobs: Annotated[int, arg(metavar="N")] = 1_000
    """Number of jobs per episode."""
    arrivals: Literal["open", "closed"] = "open"
    """Whether jobs keep arriving (open) or only those of the episode arrive (closed)."""
    episode_seed: Annotated[int, arg(metavar="N")] = 0
    """Seed of the points where episodes start."""
    workers: Annotated[int, arg(metavar="N")] = 1
    """Number of parallel processes."""
    as_json: JsonFlag = False
    """Print JSON only."""
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)

    def execute(self) -> int:
        """Simulate and print."""
        names = listed_agents(self.problem, self.agents)
        if not names or len(set(names)) < len(names):
            raise InvalidConfiguration(f"--agents: got {self.agents!r}, expected different names separated by commas")
        if self.episodes < 1 or self.workers < 1:
            raise InvalidConfiguration(
                f"got --episodes {self.episodes} and --workers {self.workers}, expected at least 1 of each"
            )
        if self.episode_seed < 0:
            raise InvalidConfiguration(f"--episode-seed: got {self.episode_seed}, expected an integer >= 0")
        calls = [(name, number) for name in names for number in range(self.episodes)]
        done: dict[tuple[str, int], dict[str, float]] = {}
        simulated = run_tasks(self._episode, calls, Workers(self.workers))
        with progress("episodes", len(calls), "episodes") as listen, closing(simulated):
            for ended in simulated:
                if isinstance(ended, Failed):
                    raise ended.error
                done[ended.task] = ended.outcome
                if listen is not None:
                    listen(len(done))
        found = {name: [done[name, number] for number in range(self.episodes)] for name in names}
        means, differences = summarize(found, names=METRICS), compare(found, names[0], names=METRICS)
        if self.as_json:
            print_json({"episodes": found, "means": _named(means), "differences": _named(differences)})
            return 0
        kind = kind_of(self.problem)
        heads = ["agent", *(heading(name, kind).replace(", ", ",\n") for name in METRICS)]
        title = f"Means over {self.episodes} episodes ± half width of the 95 % confidence interval"
        print_table(
            heads,
            [[name, *(_text(row[m].mean, row[m].half_width) for m in METRICS)] for name, row in means.items()],
            title=title,
        )
        if differences:
            rows = [
                [name, *(_text(row[m].mean, row[m].half_width, "+") for m in METRICS)]
                for name, row in differences.items()
            ]
            print_table(heads, rows, title=f"Difference from {names[0]}, paired by episode")
        return 0

    def _episode(self, call: tuple[str, int]) -> dict[str, float]:
        """Simulate one agent, given by name, on one episode, given by number."""
        from desim.problems.batch.env import TraceEpisodes

        name, number = call
        instance = shared_instance(ProblemSetting("batch", "batch", BatchOptions(self.workload), mark="episodes"))
        episodes = TraceEpisodes(
            [list(instance.workload or ())],
            instance.facts["cores"],
            num_jobs=self.episode_jobs,
            arrivals=self.arrivals,
        )
        problem = episodes.fixed(number + 1, self.episode_seed)[number]
        result = simulate(problem, plugins.create_agent(self.problem, name), seed=number)
        metrics = result.metrics(unfinished="include")
        return {metric: metrics[metric] for metric in METRICS}


def _named(table: Mapping[str, Mapping[str, Estimate]]) -> dict[str, Any]:
    """Return estimates as dictionaries of their fields."""
    return {name: {metric: estimate._asdict() for metric, estimate in row.items()} for name, row in table.items()}


def _text(mean: float, half_width: float, sign: str = "") -> str:
    digits = 0 if abs(mean) >= 1000 else 3
    return f"{mean:{sign},.{digits}f} ± {half_width:,.{digits}f}"
