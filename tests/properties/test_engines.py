"""The compiled engine has the same records as SimPy's kernel, byte by byte."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Result, simulate
from desim.agents.batch import create
from desim.agents.batch.priorities import FIXED_SCORES, PRIORITIES
from desim.problems.batch import BatchCluster, Job, Workload

pytest.importorskip("numba", reason="needs the extra search")

ORDERS = [name for name, order in PRIORITIES.items() if order.scores in FIXED_SCORES]
BY_LENGTH = ("sjf", "f1", "f2", "f3", "f4")
TRACES = Path(__file__).parents[3] / "shared" / "data" / "swf"


class Setting(NamedTuple):
    """One run."""

    jobs: list[Job]
    num_cores: int
    options: dict[str, Any]
    agent: str
    until: float

    def result(self, engine: Any, out: Path | None = None) -> Result:
        """Return the result of the run with an engine."""
        jobs = Workload.of(self.jobs) if len(self.jobs) % 2 else self.jobs
        cluster = BatchCluster(jobs, self.num_cores, **self.options)
        kinds = {} if self.until == float("inf") else {"until": self.until}
        return simulate(cluster, create(self.agent), engine=engine, out=out, seed=len(self.jobs), **kinds)


def drawn(rng: Random) -> Setting:
    """Return a random run: times with many ties or with digits, jobs that are killed or exceed their requests."""
    num_cores = rng.choice((1, 2, 4, 8, 30, 100))
    integers, longest = rng.random() < 0.5, rng.choice((3, 20, 500))

    def time(most: float) -> float:
        return float(rng.randint(0, int(most))) if integers else rng.uniform(0.0, most)

    now, jobs = rng.choice((0.0, time(3e6))), []
    gaps = rng.choice(((0.0, 1.0), (0.0, 0.0, 0.0, 5.0), (0.5, 1.5), (2.0, 40.0)))
    widest = rng.choice((num_cores, max(1, num_cores // 3)))
    ids = rng.choice(("rows", "few", "text"))
    for row in range(rng.choice((1, 5, 20, 40, 150))):
        now += time(2.0) if rng.random() < 0.3 else rng.choice(gaps)
        requested = time(longest)
        run = rng.choice((requested, time(requested), time(longest), requested * rng.choice((1.01, 3, 30))))
        number: Any = {"rows": row, "few": rng.randrange(4), "text": f"job-{rng.randrange(30)}"}[ids]
        jobs.append(Job(number, now, rng.randint(1, widest), requested, run, rng.randrange(-1, 4)))
    options: dict[str, Any] = {"cycle": rng.choice(("instant", "instant", "arrival", "event", 7.0, 0.3))}
    if rng.random() < 0.3:
        options |= rng.choice(({"enforce_time_limit": False}, {"over_time_limit": time(100.0)}))
    if rng.random() < 0.2:
        row = rng.randrange(len(jobs))
        jobs[row] = jobs[row]._replace(requested_cores=num_cores + 1)
        options["too_wide"] = "reject"
    if rng.random() < 0.4:
        options["predictor"] = rng.choice(("oracle", "user-average", "user-average:1"))
    expected = (
        ("sjf-expected",) if "user" in options.get("predictor", "") else [f"{name}-expected" for name in BY_LENGTH]
    )
    first, second = (rng.choice((*ORDERS, *expected)) for _ in range(2))
    kind = rng.choice(("{}", "backfilling-{}", "easy-{}", "easy-{}+{}", "conservative-{}", "conservative-{}"))
    until = rng.uniform(0.1, now + longest) if rng.random() < 0.2 else float("inf")
    return Setting(jobs, num_cores, options, kind.format(first, second), until)


def check(setting: Setting) -> None:
    """Raise an error if the engines differ."""
    found, known = setting.result("compiled"), setting.result("simpy")
    assert found.info.pop("engine") == "compiled"
    assert found.info == known.info
    assert repr(found.metrics()) == repr(known.metrics())  # before the table is made as a whole
    for name in known.table_names:
        assert found.table(name).schema == known.table(name).schema
        assert found.table(name).equals(known.table(name)), name


@given(st.integers(0, 2**48))
@settings(max_examples=60)
def test_engines_agree(seed: int) -> None:
    """Tables, descriptions and metrics are equal on random workloads, orders, backfilling and options."""
    check(drawn(Random(seed)))


@pytest.mark.slow
def test_engines_agree_on_thousands_of_runs() -> None:
    """The same holds for thousands of runs."""
    for seed in range(4_000):
        check(drawn(Random(seed)))
