"""The same seed gives the same bytes, in any process."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_agents import python, random_jobs

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster
from desim.processes import random_outages

RUN = """
import os, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from desim.agents.batch import create
from desim import simulate
from desim.problems.batch import BatchCluster
from desim.processes import random_outages
from small_agents import random_jobs
outages = [random_outages(300.0, 10.0, unit=2)]
for name in sys.argv[3:]:
    cluster = BatchCluster(random_jobs(300, 8), 8, processes=outages)
    simulate(cluster, create(name), seed=int(sys.argv[2]), out=os.path.join(sys.argv[1], name))
    simulate(cluster, create(name), seed=int(sys.argv[2])).save(os.path.join(sys.argv[1], "saved-" + name))
"""
DEFERRABLE = """
import os, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from random import Random
from deferrable_agents import Showing, random_choice
from deferrable_scenarios import random_scenario
from desim import simulate
for number in range(6):
    scenario = random_scenario(Random(number), overcommit=True)
    agent = Showing(random_choice(number, must_fit=False))
    simulate(scenario.cluster(), agent, out=os.path.join(sys.argv[1], str(number)))
"""
NAMES = ("fcfs", "backfilling-f2", "easy-sjf", "easy-specific-wfp3", "conservative", "conservative-specific-lcfs")


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    for directory, hash_seed in (("one", "0"), ("two", "424242")):
        done = python(RUN, str(tmp_path / directory), "7", *NAMES, PYTHONHASHSEED=hash_seed)
        assert done.returncode == 0, done.stderr
    one, two = files_of(tmp_path / "one"), files_of(tmp_path / "two")
    assert len(one) >= 2 * len(NAMES) * 4
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def test_two_processes_write_the_same_bytes_of_deferrable_jobs(tmp_path: Path) -> None:
    for directory, hash_seed in (("one", "0"), ("two", "424242")):
        done = python(DEFERRABLE, str(tmp_path / directory), PYTHONHASHSEED=hash_seed)
        assert done.returncode == 0, done.stderr
    one, two = files_of(tmp_path / "one"), files_of(tmp_path / "two")
    assert len(one) >= 6 * 4
    assert one == two


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_that_has_run_before_runs_again_as_if_it_were_new(name: str) -> None:
    agent = create(name)
    outages = [random_outages(300.0, 10.0, unit=2)]
    clusters = [BatchCluster(random_jobs(100, 8, seed), 8, processes=outages) for seed in (1, 2, 1)]
    first, _, third = (simulate(cluster, agent, seed=5) for cluster in clusters)
    assert first.jobs.equals(third.jobs)
    assert first.jobs.equals(simulate(clusters[0], create(name), seed=5).jobs)


def test_another_seed_gives_other_outages_to_the_same_jobs() -> None:
    cluster = BatchCluster(random_jobs(100, 8), 8, processes=[random_outages(100.0, 10.0)])
    first, second = (simulate(cluster, create("fcfs"), seed=seed) for seed in (1, 2))
    same = ["job_id", "submission_time", "run_time"]
    assert first.jobs.select(same).equals(second.jobs.select(same))
    assert not first.table("outages").equals(second.table("outages"))
