"""Job shops, and agents on executors that may not run every node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim import Result, simulate
from desim.agents.dag import DEFT, create
from desim.agents.dag.orders import mean_run_times, upward_rank
from desim.envs import ACTION_MASK
from desim.exceptions import InfeasibleAction, WorkloadError
from desim.problems.dag import Assign, DagCluster, Executors, Job, JobState, TaskCluster, from_networkx, to_networkx
from desim.problems.dag.env import DagEnv, NodeEncoder
from desim.problems.dag.graph_encoder import GraphEncoder
from desim.validation import validate
from desim.workloads.dag import jobshop, wfformat
from desim.workloads.dag.registry import executors_of, read_all
from tests.desim.dag_scripts import Script

INF = np.inf
SHARED = Path(__file__).parents[3] / "shared" / "data" / "jobshop" / "jobshop.json"

FT06 = """\
# Fisher and Thompson, 1963; the optimum is 55
6 6
2 1  0 3  1 6  3 7  5 3  4 6
1 8  2 5  4 10  5 10  0 10  3 4
2 5  3 4  5 8  0 9  1 1  4 7
1 5  0 5  2 5  3 3  4 8  5 9
2 9  1 3  4 5  5 4  0 3  3 1
1 3  3 3  5 9  0 10  4 4  2 1
"""


@pytest.fixture(name="shop", scope="module")
def _shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Job], Executors]:
    path = tmp_path_factory.mktemp("shop") / "ft06.jsp"
    path.write_text(FT06)
    assert [job.label for job in read_all(path)] == ["ft06"] * 6 and executors_of(path) is not None
    return jobshop.read(path)


def is_shop_schedule(result: Result, jobs: list[Job]) -> bool:
    """Return whether every operation ran once, on its machine, after the one before it, and no machine ran two."""
    copies = result.table("copies").filter(result.table("copies")["outcome"] == "completed").sort("starting_time")
    rows = copies.select("job_id", "node", "executor", "starting_time", "finish_time").rows()
    ends: dict[Any, float] = {}
    for job_id, node, executor, start, finish in rows:
        assert jobs[job_id].eligible is not None
        right_machine = jobs[job_id].eligible[node] == {f"machine{executor}"}
        right_order = start >= ends.get(("job", job_id), 0.0) and node == ends.get(("next", job_id), 0)
        if not right_machine or not right_order or start < ends.get(executor, 0.0):
            return False
        if finish - start != jobs[job_id].work[node]:
            return False
        ends[executor] = ends["job", job_id] = finish
        ends["next", job_id] = node + 1
    return len(rows) == sum(job.num_nodes for job in jobs)


@pytest.mark.parametrize(
    ("agent", "ahead"),
    [
        *((name, True) for name in ("heft", "cpop", "peft", "tdca", "portfolio:heft+cpop+dls+rank-up-deft-patient")),
        *(
            (name, False)
            for name in ("dls", "fifo-eft", "rank-up-deft", "rank-up-deft-idle", "least-work-deft-patient")
        ),
        ("rollout:rank-up-eft-idle", False),
    ],
)
def test_a_job_shop_gets_a_valid_schedule(shop: tuple[list[Job], Executors], agent: str, ahead: bool) -> None:
    jobs, machines = shop
    result = simulate(DagCluster(jobs, machines, plan_ahead=ahead), create(agent))
    validate(result, jobs).raise_if_invalid()
    assert is_shop_schedule(result, jobs)
    assert 55.0 <= result.metrics()["makespan"] <= 100.0


def test_the_optimum_of_ft06_is_55(shop: tuple[list[Job], Executors]) -> None:
    pytest.importorskip("ortools")
    agent: Any = create("optimum")
    result = simulate(DagCluster(shop[0], shop[1], plan_ahead=True), agent)
    assert (result.metrics()["makespan"], agent.schedules[0].status) == (55.0, "optimal")
    assert is_shop_schedule(result, shop[0])


def test_search_schedules_a_job_shop(shop: tuple[list[Job], Executors]) -> None:
    pytest.importorskip("numba")
    for objective in ("makespan", "turnaround_time_mean"):
        result = simulate(DagCluster(*shop, plan_ahead=True), create(f"search:dag:{objective}:200"))
        assert is_shop_schedule(result, shop[0])
        assert objective != "makespan" or 55.0 <= result.metrics()["makespan"] <= 60.0


@pytest.mark.parametrize("agent", ["graph:local-imitating-search", "lachesis:tpch-lachesis", "decima:tpch-decima"])
def test_networks_schedule_a_job_shop(shop: tuple[list[Job], Executors], agent: str) -> None:
    pytest.importorskip("torch")
    result = simulate(DagCluster(*shop), create(agent))
    assert is_shop_schedule(result, shop[0])


def test_the_shared_instances_are_read(shop: tuple[list[Job], Executors]) -> None:
    if not SHARED.exists():
        pytest.skip("needs the instances beside the repository")
    jobs, machines = jobshop.read(SHARED, "ft06")
    assert [job.eligible for job in jobs] == [job.eligible for job in shop[0]]
    assert [job.work.tolist() for job in jobs] == [job.work.tolist() for job in shop[0]]
    for name, instance in json.loads(SHARED.read_text()).items():
        jobs, machines = jobshop.read(SHARED, name)
        result = simulate(DagCluster(jobs, machines), create("rank-up-eft"))
        assert is_shop_schedule(result, jobs) and result.metrics()["makespan"] >= instance["upper_bound"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 2\n0 1 1 2\n", "got 1 jobs, expected as many as the first line says"),
        ("1 2\n0 1 2 2\n", "line 2: got '0 1 2 2', expected pairs of a machine from 0 to 1 and a duration"),
        ("1 2\n0 1 1\n", "line 2"),
        ("1 2\n0 x\n", "line 2: got '0 x', expected numbers"),
        ("1\n", "line 1: got 1 numbers"),
        ("1 1\n0 -3\n", "got -3.0, expected a finite number >= 0"),
    ],
)
def test_what_is_no_job_shop_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.jsp").write_text(text)
    with pytest.raises(WorkloadError, match=message.replace("(", r"\(")):
        jobshop.read(tmp_path / "a.jsp")


# -- ways to restrict nodes -----------------------------------------------------------------------

MIXED = Executors([1.0, 2.0, 4.0], names=["cpu0", "cpu1", "gpu0"], features=[["big"], [], ["big", "gpu"]])


def test_three_ways_to_restrict_a_node_add_up() -> None:
    job = Job(
        1,
        [4.0] * 4,
        [(0, 1, 0.0), (1, 2, 0.0), (2, 3, 0.0)],
        run_times=[[1, 2, 3], [INF, 2, 3], [1, 2, 3], [1, INF, 3]],
        eligible=[None, None, ["cpu0", "cpu1"], ["cpu0", "cpu1"]],
        required_features=[["big", "gpu"], None, ["big"], None],
    )
    expected = [[INF, INF, 3], [INF, 2, 3], [1, INF, INF], [1, INF, INF]]
    assert job.run_times_on(MIXED).tolist() == expected
    result = simulate(DagCluster([job], MIXED), create("rank-up-eft"))
    assert result.table("nodes")["run_times"].to_list() == expected
    assert result.table("copies").sort("node")["executor"].to_list() == [2, 1, 0, 0]
    assert result.metrics()["critical_path"] == 3 + 2 + 1 + 1 == result.metrics()["makespan"]
    assert np.isnan(result.metrics()["serial_time"])
    back = from_networkx(to_networkx(job))
    assert (back.eligible, back.required_features) == (job.eligible, job.required_features)
    assert back.run_times_on(MIXED).tolist() == expected


def test_means_are_over_eligible_executors() -> None:
    job = Job(1, [8.0, 8.0], [(0, 1, 0.0)], required_features=[["big"], None])
    assert mean_run_times(job, MIXED).tolist() == [(8 + 2) / 2, (8 + 4 + 2) / 3]
    assert upward_rank(job, MIXED)[0] == pytest.approx(5 + 14 / 3)


def test_a_node_that_no_executor_may_run_is_refused_before_the_run() -> None:
    with pytest.raises(
        WorkloadError, match="node 'node0' may run on no executor of the cluster, required features: 'x'"
    ):
        DagCluster([Job(1, [1.0], required_features=[["x"]])], MIXED)
    with pytest.raises(WorkloadError, match="node 'node1' may run on no executor"):
        DagCluster([Job(1, [1.0, 1.0], [(0, 1, 0.0)], run_times=[[1, 1, INF], [INF] * 3])], MIXED)
    with pytest.raises(WorkloadError, match="eligible of node0: got 'cpu0', expected a set of names"):
        Job(1, [1.0], eligible=["cpu0"])
    with pytest.raises(WorkloadError, match=r"eligible: got .* expected 2 sets of names"):
        Job(1, [1.0, 1.0], eligible=[["cpu0"]], allow_disconnected=True)


@pytest.mark.parametrize("kind", [DagCluster, TaskCluster])
def test_an_assignment_to_an_executor_that_may_not_run_the_node_is_refused(kind: Any) -> None:
    job = Job(1, [1.0], required_features=[["gpu"]])
    with pytest.raises(InfeasibleAction, match=r"executor 0 may not run node 0; expected one of \[2\]"):
        simulate(kind([job], MIXED), Script(Assign(1, 0, 0)))


def test_a_duplicate_where_it_may_not_run_is_refused() -> None:
    job = Job(1, [1.0, 1.0], [(0, 1, 0.0)], eligible=[["cpu0"], None])
    with pytest.raises(InfeasibleAction, match="executor 1 may not run node 0"):
        simulate(DagCluster([job], MIXED, plan_ahead=True), Script([Assign(1, 0, 0), Assign(1, 1, 1, (0,))]))


def test_list_schedulers_pass_over_nodes_whose_executors_are_busy() -> None:
    # The first two jobs need executor 0; the third can start at once on executor 1.
    jobs = [Job(0, [4.0], eligible=[["cpu0"]]), Job(1, [4.0], eligible=[["cpu0"]]), Job(2, [4.0], eligible=[["cpu1"]])]
    for name in ("fifo-eft-idle", "fifo-eft-patient"):
        starts = simulate(DagCluster(jobs, MIXED), create(name)).jobs.sort("job_id")["starting_time"].to_list()
        assert starts == [0.0, 4.0, 0.0]


def test_cpop_runs_what_it_can_of_the_critical_path_on_one_executor() -> None:
    job = Job(1, [2.0, 2.0, 2.0], [(0, 1, 0.0), (1, 2, 0.0)], eligible=[["cpu0"], ["cpu1"], ["cpu0", "cpu1"]])
    slow = Executors([1.0, 1.0], names=["cpu0", "cpu1"])
    result = simulate(DagCluster([job], slow, plan_ahead=True), create("cpop"))
    assert result.table("copies").sort("node")["executor"].to_list() == [0, 1, 0]


# -- encoders and environments --------------------------------------------------------------------

THREE = [
    Job(0, [4.0], eligible=[["cpu0"]]),
    Job(1, [4.0], required_features=[["gpu"]]),
    Job(2, [4.0], run_times=[[2.0, 3.0, INF]]),
]


class Looking:
    """Note the masks of encoders at the first decision, then follow another agent."""

    def __init__(self, *encoders: Any) -> None:
        self.encoders, self.masks, self.agent = encoders, [], create("fifo-eft")  # type: ignore[var-annotated]

    def reset(self, info: Any, rng: Any) -> None:
        self.agent.reset(info, rng)

    def act(self, observation: Any) -> Any:
        if not self.masks:
            self.masks = [encoder.encode(observation)[ACTION_MASK].tolist() for encoder in self.encoders]
            for encoder, mask in zip(self.encoders, self.masks, strict=True):
                for action, may in enumerate(mask):
                    answer, feasible = encoder.decode(observation, action)
                    assert feasible == bool(may), (encoder, action)
                    if answer is not None:
                        state: JobState = observation.jobs[answer.job_id]
                        assert state.run_times[answer.node, answer.executor] < INF
        return self.agent.act(observation)


def test_masks_exclude_executors_that_may_not_run_a_node() -> None:
    looking = Looking(
        NodeEncoder(3, 4),
        NodeEncoder(3, 4, allocation=DEFT().allocate),
        GraphEncoder(DEFT().allocate, only_idle=False),
        GraphEncoder(DEFT().allocate, only_idle=True),
    )
    simulate(DagCluster(THREE, MIXED), looking)
    assert looking.masks[0] == [1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0]
    assert looking.masks[1] == [1, 1, 1, 0]
    assert looking.masks[2][:4] == looking.masks[3][:4] == [1, 1, 1, 0]


def test_random_masked_actions_run_every_job() -> None:
    env = DagEnv([DagCluster(THREE, MIXED)], num_executors=3, max_nodes=4)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        env.reset(seed=seed)
        done = False
        while not done:
            action = int(rng.choice(np.flatnonzero(env.action_masks())))
            _, _, terminated, truncated, _ = env.step(action)
            done = terminated or truncated
        assert terminated


def test_files_that_cannot_hold_restrictions_say_so(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="eligible executors, which WfFormat cannot store"):
        wfformat.write(tmp_path / "a.json", THREE[0])
    wfformat.write(tmp_path / "a.json", Job(0, [1.0]), executors=MIXED)
    read = wfformat.executors_of(tmp_path / "a.json")
    assert read is not None and read.features == MIXED.features
