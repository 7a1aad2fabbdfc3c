"""The figures of merit: one number each, measured in a process of its own, kept in JSON, compared with earlier ones.

``python -m benchmarks figures [NAME ...] [--against FILE] [--against-tree PATH]``; a name may be the beginning of
several. They go to ``build/benchmarks/COMMIT.json`` and are compared with the last file there, or with ``--against``.
With ``--against-tree``, a checkout of another commit (``git worktree add PATH COMMIT``), both trees are measured in
turns by the programs of this one, which is the only fair comparison on a machine whose speed changes. Times are
processor times, but for a training in two processes, and of all repeats the best counts. Goals in jobs or steps a
second are those of one machine; ratios hold anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import print_table, processor_seconds, trace

TREE = Path(__file__).resolve().parents[1]
STORE = TREE / "build" / "benchmarks"
TURNS = 3
START = "d6f6224"

# `benchmarks` is that of this tree, `desim` that of the tree to be measured.
CODE = """
import sys
sys.path.insert(0, {ours!r})
import benchmarks
sys.path[0] = {measured!r}
from benchmarks import figures
print(figures.FIGURES[{name!r}].measure())
"""


class Figure(NamedTuple):
    """A figure: its unit, whether more is better, what measures it, and what is wanted.

    That is a value, or how many times better it is to be than before the kernel, forks and training were made faster
    (commit `START`). What takes long is measured only when it is named.
    """

    unit: str
    more_is_better: bool
    measure: Callable[[], float]
    goal: float | None = None
    times_better: float | None = None
    is_long: bool = False

    def wanted(self) -> str:
        """Return the goal in words."""
        if self.times_better is not None:
            return f"{self.times_better:g} x {START}"
        return "" if self.goal is None else f"{self.goal:,.4g}"

    def outcome(self, value: float, start: float | None) -> str:
        """Say whether a value reaches the goal; if it is relative, the value before is needed."""
        if self.times_better is not None:
            goal = start and (start * self.times_better if self.more_is_better else start / self.times_better)
        else:
            goal = self.goal
        if goal is None:
            return ""
        return "yes" if (value >= goal if self.more_is_better else value <= goal) else "no"


def workload(name: str) -> tuple[int, list[Any]]:
    """Return the cores and the jobs of a workload."""
    from desim.workloads import lublin

    if name == "deep":  # some hundred jobs in the queue, requests up to five times too long
        return 200, lublin.generate(4_000, 200, seed=0, load=1.1, overestimate=5.0)
    return {"lublin_256": 256, "KTH-SP2-1996-2": 100}[name], trace(name)[1]


def simulation(agent: str, name: str) -> Callable[[], object]:
    """Return a run with full records."""
    from desim import simulate
    from desim.agents.batch import create
    from desim.problems.batch import BatchCluster

    num_cores, jobs = workload(name)
    return lambda: simulate(BatchCluster(jobs, num_cores), create(agent))


def batch_speed(agent: str, name: str) -> float:
    """Return jobs a second."""
    (seconds,) = processor_seconds(2, simulation(agent, name))
    return len(workload(name)[1]) / seconds


def simpy_ratio(agent: str, name: str, rounds: int = 2) -> float:
    """Return the speed of an agent with full records over that of the shortest SimPy program, which is FCFS."""
    from benchmarks.replay import shortest_program

    num_cores, jobs = workload(name)
    bare, full = processor_seconds(rounds, partial(shortest_program, jobs, num_cores), simulation(agent, name))
    return bare / full


def agent_ratio(agent: str, other: str, name: str) -> float:
    """Return the speed of an agent over that of another."""
    seconds, of_other = processor_seconds(3, simulation(agent, name), simulation(other, name))
    return of_other / seconds


def fork_milliseconds(num_jobs: int) -> float:
    """Return the time of a fork after so many jobs under FCFS, with a hundred more in the system.

    The past is told in jobs, as how many questions are asked of an agent differs from commit to commit.
    """
    from desim import Simulation
    from desim.agents.batch import FCFS
    from desim.problems.batch import BatchCluster, Job

    # One core and a hundred jobs there at the beginning; from then on one comes whenever one goes.
    jobs = [Job(number, float(max(0, number - 100)), 1, 1.0, 1.0) for number in range(num_jobs + 500)]
    simulation, agent = Simulation(BatchCluster(jobs, 1)), FCFS()
    decision = simulation.advance()
    while decision is not None and decision.observation.time < num_jobs:
        decision.answer(agent.act(decision.observation))
        decision = simulation.advance()
    (seconds,) = processor_seconds(5, simulation.fork)
    return 1e3 * seconds


def environment_speed(name: str) -> float:
    """Return steps a second of an environment as ``gymnasium.make`` returns it; the first possible action each time."""
    import gymnasium
    import numpy as np

    import desim.envs  # noqa: F401 - registers them

    gym_env: Any = gymnasium.make(f"desim/{name}-v0").unwrapped
    seen, _ = gym_env.reset(seed=1)
    discrete = isinstance(gym_env.action_space, gymnasium.spaces.Discrete)
    zeros = None if discrete else np.zeros(gym_env.action_space.shape, np.float32)

    def steps() -> None:
        nonlocal seen
        for _ in range(2_000):
            action = int(seen["action_mask"].argmax()) if discrete else zeros
            seen, _, terminated, truncated, _ = gym_env.step(action)
            if terminated or truncated:
                seen, _ = gym_env.reset()

    (seconds,) = processor_seconds(3, steps)
    return 2_000 / seconds


def trainings(name: str) -> tuple[Any, Any]:
    """Return a training in one process, and its learner, whose updates never end early."""
    from dataclasses import replace

    import numpy as np

    from desim.agents.batch.training import (
        EpisodeOptions,
        InspectorTraining,
        SchedInspectorTraining,
        SplitWindowTraining,
    )
    from desim.agents.dag.training import GraphTraining
    from desim.agents.deferrable.training import ScoreTraining
    from desim.agents.learning.training import Training

    episodes = EpisodeOptions(num_traces=4, trace_jobs=5_000)
    settings: Any = {
        "batch": SplitWindowTraining(episodes=episodes),
        "batch-inspector": InspectorTraining(episodes=replace(episodes, num_jobs=128)),
        "batch-schedinspector": SchedInspectorTraining(episodes=replace(episodes, num_jobs=128)),
        "dag": GraphTraining(),
        "deferrable": ScoreTraining(),
    }[name]
    if settings.training.whole_episodes:
        settings = replace(settings, training=replace(settings.training, num_envs=32))
    settings = replace(settings, learning=replace(settings.learning, target_kl=0.0))
    learner = settings.learner(settings.agent.policy(np.random.default_rng(0)), np.random.default_rng(1))
    return Training(settings.task(), learner, settings.training), learner


def training_speed(name: str) -> float:
    """Return decisions a second of a training in one process: network, full updates and measures, no validation."""
    from desim.agents.learning.policy import one_thread

    training, learner = trainings(name)
    speeds = []
    with one_thread():
        for _ in range(3):  # the first warms up
            begin = time.process_time()
            experience = training.collect()
            learner.update(experience, 0.0)
            speeds.append(experience.num_steps / (time.process_time() - begin))
    return max(speeds[1:])


def training_by_the_clock() -> float:
    """Return decisions a second of training in `batch` with two processes, network and updates included."""
    from benchmarks.learning import NETWORKS, NUM_ENVS, NUM_STEPS, iterations

    found = iterations(NETWORKS["scorer (64, 32)"], 2)
    return NUM_ENVS * NUM_STEPS / (found.collect + found.update)


def planning_speed() -> float:
    """Return slots a second of the rolling horizon."""
    from desim import simulate
    from desim.agents.deferrable.registry import create
    from desim.problems.deferrable import DeferrableCluster
    from desim.workloads.deferrable import DEFAULT, generate

    scenario = generate(seed=0)
    cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots)
    (seconds,) = processor_seconds(2, lambda: simulate(cluster, create("rolling-horizon")))
    return DEFAULT.num_slots / seconds


def streamed(num_jobs: int, *, memory: bool, checked: bool = True) -> float:
    """Return peak MB or microseconds a job of EASY over generated jobs, records to files.

    Metrics are computed and the records are checked against the jobs, which are drawn again, unless it is said.
    """
    from desim import simulate
    from desim.agents.batch import EASYBackfilling
    from desim.problems.batch import BatchCluster
    from desim.validation import validate
    from desim.workloads import lublin

    begin = time.process_time()
    with tempfile.TemporaryDirectory() as directory:
        jobs = partial(lublin.stream, num_jobs, 256, seed=0, load=0.8)
        result = simulate(BatchCluster(jobs(), 256), EASYBackfilling("fcfs"), out=Path(directory) / "run")
        if checked:
            result.metrics()
            validate(result, jobs()).raise_if_invalid()
    if memory:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return 1e6 * (time.process_time() - begin) / num_jobs


AGENTS = ("fcfs", "easy", "conservative")
WORKLOADS = ("lublin_256", "KTH-SP2-1996-2", "deep")
GOALS = {("easy", "lublin_256"): 30_000.0}
TIMES_BETTER = {("conservative", "KTH-SP2-1996-2"): 10.0, ("conservative", "deep"): 10.0}
OF_SIMPY = "of the SimPy program"

FIGURES = {
    "kernel": Figure(OF_SIMPY, True, partial(simpy_ratio, "fcfs", "lublin_256", 7), 0.33),
    "easy over fcfs": Figure("of the speed", True, partial(agent_ratio, "easy", "fcfs", "lublin_256"), 0.3),
    **{
        f"{agent}, {name}": Figure(
            "jobs/s", True, partial(batch_speed, agent, name), GOALS.get((agent, name)), TIMES_BETTER.get((agent, name))
        )
        for name in WORKLOADS
        for agent in AGENTS
    },
    **{
        f"{agent}, {name}, SimPy": Figure(OF_SIMPY, True, partial(simpy_ratio, agent, name))
        for name in WORKLOADS
        for agent in AGENTS
    },
    "fork after 1,000 jobs": Figure("ms", False, partial(fork_milliseconds, 1_000), 1.0),
    "fork after 32,000 jobs": Figure("ms", False, partial(fork_milliseconds, 32_000), 1.0),
    **{
        f"environment {name}": Figure("steps/s", True, partial(environment_speed, name), goal)
        for name, goal in (("Batch", 25_000.0), ("Dag", 12_000.0), ("Deferrable", 8_000.0), ("MultiServer", 8_000.0))
    },
    **{
        f"training, {name}": Figure("decisions/s", True, partial(training_speed, name), times_better=2.0)
        for name in ("batch", "batch-inspector", "dag", "deferrable")
    },
    "training, batch, two processes": Figure("decisions/s", True, training_by_the_clock, 25_000.0),
    "rolling horizon": Figure("slots/s", True, planning_speed, times_better=5.0),
    "time, 10^5 jobs": Figure("us a job", False, partial(streamed, 100_000, memory=False)),
    "time, 10^6 jobs": Figure("us a job", False, partial(streamed, 1_000_000, memory=False)),
    "memory, 10^6 jobs": Figure("peak MB", False, partial(streamed, 1_000_000, memory=True), 300.0),
    **{
        f"long, {what}, 10^7 jobs, simulation": Figure(
            unit, False, partial(streamed, 10_000_000, memory=what == "memory", checked=False), goal, is_long=True
        )
        for what, unit, goal in (("time", "us a job", None), ("memory", "peak MB", 400.0))
    },
}


def measured(name: str, tree: Path = TREE) -> float:
    """Measure a figure of a tree in a fresh interpreter."""
    code = CODE.format(ours=str(TREE), measured=str(tree), name=name)
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | one_thread, check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{name} of {tree} failed:\n{done.stderr}")
    return float(done.stdout)


def best(name: str, trees: Sequence[Path]) -> list[float]:
    """Return the best of some measurements of each tree, in turns if there are several."""
    turns = TURNS if len(trees) > 1 and "10^6" not in name and not FIGURES[name].is_long else 1
    found = [[measured(name, tree) for tree in trees] for _ in range(turns)]
    choose = max if FIGURES[name].more_is_better else min
    return [choose(values) for values in zip(*found, strict=True)]


def commit_of(tree: Path) -> str:
    """Return the commit that a tree holds, with a plus if it was changed since; "unknown" outside of git."""
    try:
        git = partial(subprocess.run, cwd=tree, check=True, capture_output=True, text=True)
        changed = git(["git", "status", "--porcelain", "--untracked-files=no"]).stdout
        return git(["git", "rev-parse", "--short", "HEAD"]).stdout.strip() + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def last_stored() -> Path | None:
    """Return the file that was written last, if any."""
    return max(STORE.glob("*.json"), key=lambda path: path.stat().st_mtime, default=None)


def stored(path: Path) -> dict[str, float]:
    """Read figures from a file."""
    try:
        return {name: float(value) for name, value in json.loads(path.read_text())["figures"].items()}
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"{path} holds no figures: {error}")


def store(figures: dict[str, float], commit: str) -> Path:
    """Write figures to the file of a commit; what it held of others stays."""
    path = STORE / f"{commit}.json"
    STORE.mkdir(parents=True, exist_ok=True)
    earlier = stored(path) if path.exists() else {}
    machine = {"processor": platform.processor() or platform.machine(), "python": platform.python_version()}
    path.write_text(json.dumps({"commit": commit, **machine, "figures": earlier | figures}, indent=2) + "\n")
    return path


def chosen(begin: str) -> list[str]:
    """Return the figure of a name, or those whose names begin so."""
    return [begin] if begin in FIGURES else [name for name in FIGURES if name.startswith(begin)]


def main(arguments: Sequence[str] = ()) -> None:
    """Measure, print beside what is compared with, and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks figures")
    parser.add_argument("names", nargs="*", help=f"by default all that are not long: {', '.join(FIGURES)}")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with these figures, not with the last")
    parser.add_argument("--against-tree", type=Path, metavar="PATH", help="measure this checkout, too, in turns")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if not chosen(name)]:
        parser.error(f"no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    short = [name for name, figure in FIGURES.items() if not figure.is_long]
    names = list(dict.fromkeys(name for begin in given.names for name in chosen(begin))) or short
    other: dict[str, float] = {}
    if given.against_tree:
        what = commit_of(given.against_tree)
    else:
        path = given.against or last_stored()
        other, what = (stored(path), path.stem) if path else ({}, "nothing stored")
    trees = [TREE, given.against_tree.resolve()] if given.against_tree else [TREE]
    commit, rows = commit_of(TREE), []
    for number, name in enumerate(names, 1):
        value, *values_there = best(name, trees)
        if values_there:
            other[name] = values_there[0]
            store({name: other[name]}, what)
        path = store({name: value}, commit)  # at once: an interrupted run keeps what it has measured
        ratio = f"{value / other[name]:.2f} x" if name in other else ""
        before = f"{other[name]:,.4g}" if name in other else ""
        figure = FIGURES[name]
        reached = figure.outcome(value, other.get(name) if what == START else None)
        rows.append([name, figure.unit, f"{value:,.4g}", before, ratio, figure.wanted(), reached])
        print(f"{number} of {len(names)}: " + "  ".join(rows[-1]), file=sys.stderr, flush=True)
    print_table("Figures of merit", ["figure", "unit", commit, what, "ratio", "goal", "reached"], rows)
    print(f"  stored in {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
