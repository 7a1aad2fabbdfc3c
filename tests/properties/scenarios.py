"""Small random workloads with many ties, and their comparison with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st
from performing import perform
from reference import Conservative, Easy, Placed, Scheduler, Simple, Strict, run_reference

from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job

__all__ = ["KINDS", "Scenario", "difference", "random_scenario", "scenarios", "simulated"]

KINDS = ("strict", "backfilling", "easy", "easy-specific", "conservative", "conservative-specific")
"""The kinds of agents, by the names that ``desim.agents.batch.create`` gives them."""


class Scenario(NamedTuple):
    """Jobs in order of submission, and a cluster."""

    jobs: list[Job]
    num_cores: int

    @property
    def cycle(self) -> Any:
        """Return when agents are asked: one half of the scenarios for each instant, the others for each arrival."""
        return ("instant", "arrival")[len(self.jobs) % 2]

    def __repr__(self) -> str:
        """Show what is needed to build it again."""
        rows = ", ".join(repr(tuple(job[:5])) for job in self.jobs)
        return f"{self.num_cores} cores, (id, submission, cores, requested, run): {rows}"


def make_scenario(num_cores: int, rows: Sequence[tuple[int, int, int, int]], job_ids: Sequence[int]) -> Scenario:
    """Make a scenario of rows (gap to the job before, cores, requested time, run time)."""
    time, jobs = 0, []
    for job_id, (gap, cores, requested, run) in zip(job_ids, rows, strict=True):
        time += gap
        jobs.append(Job(job_id, float(time), min(cores, num_cores), float(requested), float(run)))
    return Scenario(jobs, num_cores)


def random_scenario(rng: Random, shortest: int = 1) -> Scenario:
    """Return up to 40 jobs on up to 8 cores; short times, so that much happens at once."""
    num_cores = rng.choice((1, 2, 2, 3, 4, 4, 5, 6, 8, 8))
    longest, gaps = rng.choice((2, 5, 12)), rng.choice(((0, 1), (0, 0, 0, 1, 4), (0, 1, 2, 3), (1,), (0, 0, 12)))
    widest = rng.choice((num_cores, num_cores, max(1, num_cores // 2), 1))
    exactness = rng.choice(("exact", "long requests", "killed", "any"))
    rows = []
    for _ in range(rng.choice((3, 5, 8, 12, 20, 40))):
        requested = rng.randint(shortest, longest)
        run = {
            "exact": requested,
            "long requests": rng.randint(0, requested),
            "killed": requested + rng.randint(0, 3),
            "any": rng.randint(0, longest + 2),
        }[exactness]
        rows.append((rng.choice(gaps), rng.randint(1, widest), requested, run))
    return make_scenario(num_cores, rows, rng.sample(range(len(rows)), len(rows)))


@st.composite
def scenarios(draw: st.DrawFn, shortest: int = 1) -> Scenario:
    """Draw up to 12 jobs on up to 8 cores."""
    num_cores = draw(st.integers(1, 8))
    row = st.tuples(st.integers(0, 3), st.integers(1, num_cores), st.integers(shortest, 6), st.integers(0, 7))
    rows = draw(st.lists(row, min_size=1, max_size=12))
    return make_scenario(num_cores, rows, draw(st.permutations(range(len(rows)))))


def reference_scheduler(kind: str, order: str) -> Scheduler:
    """Return the plain counterpart of the agent of a kind and order."""
    specific = kind.endswith("-specific")
    if kind == "strict":
        return Strict(order)
    if kind == "backfilling":
        return Simple(order)
    return (Easy if kind.startswith("easy") else Conservative)(order, specific)


def simulated(scenario: Scenario, agent: Any) -> dict[int, Placed]:
    """Run a scenario in the simulator and return where each job ran."""
    placed: dict[int, Placed] = {}

    def note(time: float, execution: Any) -> None:
        cores = frozenset(core for core in range(scenario.num_cores) if execution.cores >> core & 1)
        placed[execution.job.job_id] = Placed(time, cores)

    cluster = BatchCluster(scenario.jobs, scenario.num_cores, cycle=scenario.cycle)
    cluster.on("start", note)
    perform(cluster, agent)
    return placed


def difference(scenario: Scenario, kind: str, order: str) -> str | None:
    """Return where the simulator and the reference part, or None if they agree on everything."""
    found = simulated(scenario, create(order if kind == "strict" else f"{kind}-{order}"))
    expected = run_reference(scenario.jobs, scenario.num_cores, reference_scheduler(kind, order), scenario.cycle)
    if found == expected:
        return None
    assert found.keys() == expected.keys(), f"{kind}-{order}: {sorted(found)} ran, not {sorted(expected)}: {scenario}"
    lines = [
        f"job {job_id}: start {found[job_id].start}, cores {sorted(found[job_id].cores)};"
        f" reference: start {expected[job_id].start}, cores {sorted(expected[job_id].cores)}"
        for job_id in sorted(expected)
        if found[job_id] != expected[job_id]
    ]
    return f"{kind}-{order} on {scenario!r}\n  " + "\n  ".join(lines)
