"""DAG jobs for learners: features, masks and rewards, each against a plain second version."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import gymnasium
import numpy as np
import pytest
from dag_cases import ALL_DOWN, decisions, fixed_features, log, random_cluster
from env_cases import Masked, Unmasked, play, total
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.dag import DEFT, EFT, FIFO, ListScheduler
from desim.agents.dag.orders import mean_run_times
from desim.core import Simulation
from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.problems.dag import Assign, DagCluster, Executors, Job, TaskState
from desim.problems.dag.env import (
    NODE_FEATURES,
    CompletionTimeReward,
    DagEnv,
    MakespanReward,
    NodeEncoder,
)
from desim.processes import planned_outages
from desim.workloads.dag.registry import draw


@given(seed=st.integers(0, 10**6), max_nodes=st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_the_mask_is_what_the_cluster_accepts(seed: int, max_nodes: int) -> None:
    encoder = NodeEncoder(3, max_nodes)
    for number, (simulation, decision) in enumerate(decisions(Random(seed), encoder)):
        observation = decision.observation
        mask = encoder.encode(observation)["action_mask"].tolist()
        nodes = list(observation.ready.values())[:max_nodes]
        if encoder.is_forced(observation):
            assert mask == [1] + [0] * (3 * max_nodes - 1)
            assert [encoder.decode(observation, action) for action in (0, 1)] == [(None, True), (None, False)]
            assert not any(is_accepted(simulation, Assign(state.job.job_id, node, 0)) for state, node in nodes)
            continue
        for action in range(3 * max_nodes):
            place, executor = divmod(action, 3)
            answer, valid = encoder.decode(observation, action)
            assert valid == bool(mask[action])
            if place >= len(nodes):
                assert (answer, valid) == (None, False)
                continue
            state, node = nodes[place]
            asked = Assign(state.job.job_id, node, executor)
            assert answer == (asked if valid else None)
            if number % 4 == 0:
                assert valid == is_accepted(simulation, asked)


def is_accepted(simulation: Simulation, asked: Assign) -> bool:
    """Tell whether the cluster carries out an assignment, and that it refuses it otherwise."""
    fork = simulation.fork()
    assigned: list[tuple[Any, ...]] = []
    fork.problem.on("assignment", lambda time, copy: assigned.append((copy.state.job.job_id, copy.node, copy.executor)))
    decision = fork.advance()
    assert decision is not None
    try:
        decision.answer(asked)
    except InfeasibleAction as error:
        assert "down" in str(error)
        return False
    assert assigned == [asked[:3]]
    return True


@given(seed=st.integers(0, 10**6), max_nodes=st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_features_are_those_that_are_described(seed: int, max_nodes: int) -> None:
    encoder = NodeEncoder(3, max_nodes)
    for _, decision in decisions(Random(seed), encoder):
        seen = decision.observation
        found = encoder.encode(seen)
        expected = slow_features(seen, max_nodes)
        for name, table in expected.items():
            np.testing.assert_allclose(found[name], table, rtol=1e-5, atol=1e-6, err_msg=name)
            assert found[name] in encoder.observation_space[name]


def slow_features(seen: Any, max_nodes: int) -> dict[str, np.ndarray]:
    """Return all arrays but the mask, written as they are described."""
    executors = range(seen.executors.num_executors)
    idle_at = [time - seen.time for time in seen.available_times.tolist()]
    nodes = np.zeros((max_nodes, len(NODE_FEATURES)))
    finish_times = np.zeros((max_nodes, len(executors)))
    for row, (state, node) in enumerate(list(seen.ready.values())[:max_nodes]):
        job = state.job
        for executor in executors:
            start = max(seen.available_times[executor], state.ready_time(node, executor), seen.time)
            finish_times[row, executor] = log(start + state.run_times[node, executor] - seen.time)
        times = mean_run_times(job, seen.executors)
        left = [times[other] for other in range(job.num_nodes) if not state.finished[other]]
        nodes[row] = [
            1.0,
            *fixed_features(job, seen.executors)[node],
            log(state.num_unfinished),
            log(sum(left)),
            log(seen.time - job.submission_time),
            log(state.unassigned_tasks[node] if isinstance(state, TaskState) else 1),
            finish_times[row].min(),
        ]
    up = [time < math.inf for time in idle_at]
    waiting = [len(seen.executor_queues[executor].waiting) for executor in executors]
    rows = [
        [up[executor], seen.executors.speeds[executor] / 2.0, log(idle_at[executor]), log(waiting[executor])]
        for executor in executors
    ]
    count = len(seen.ready)
    system = [log(len(seen.jobs)), log(count), log(max(count - max_nodes, 0)), sum(up) / 3, log(min(idle_at))]
    return {"nodes": nodes, "executors": np.array(rows), "finish_times": finish_times, "system": np.array(system)}


@pytest.mark.parametrize("rule", [Masked, Unmasked])
def test_rewards_are_what_the_metrics_say(rule: type[Masked]) -> None:
    rng = Random(3)
    clusters = [random_cluster(rng, outages=False) for _ in range(12)]
    for reward, scale in (("makespan", 1_000.0), ("turnaround_time_mean", 10_000.0)):
        gym_env = DagEnv(clusters, 3, max_nodes=4, reward=reward)
        finished = 0
        for seed in range(12):
            steps = play(gym_env, rule(seed), seed=seed)
            result = gym_env.result()
            metrics = result.metrics()
            if steps[-1][2]:
                finished += 1
                assert metrics["jobs_completed"] == metrics["jobs_submitted"]
                times = {
                    "makespan": metrics["makespan"],
                    "turnaround_time_mean": metrics["turnaround_time_mean"] * metrics["jobs_submitted"],
                }
            else:  # one that waits for ever has jobs left, which count up to the end
                assert rule is Unmasked
                assert metrics["jobs_completed"] < metrics["jobs_submitted"]
                end, jobs = result.info["end_time"], result.jobs
                spent = (jobs["finish_time"].fill_null(end) - jobs["submission_time"]).sum()
                times = {"makespan": end - steps[0][4]["time"], "turnaround_time_mean": spent}
            assert -scale * total(steps) == pytest.approx(times[reward], abs=1e-9)
        assert (finished == 12) == (rule is Masked)


@pytest.mark.parametrize("allocation", [EFT, DEFT])
def test_with_an_allocation_the_first_node_is_fifo(allocation: Any) -> None:
    jobs, executors = draw(np.random.default_rng(5), num_jobs=6, num_executors=5)
    chosen = allocation()
    gym_env = DagEnv([DagCluster(jobs, executors)], 5, max_nodes=30, allocation=chosen.allocate)
    assert gym_env.action_space == gymnasium.spaces.Discrete(30)
    steps = play(gym_env, lambda gym_env, seen: oldest(gym_env), seed=0)
    assert not any(step[4]["invalid"] for step in steps)
    ours, theirs = gym_env.result(), simulate(DagCluster(jobs, executors), ListScheduler(FIFO(), chosen))
    columns = ["job_id", "node", "executor", "starting_time", "finish_time"]
    assert ours.table("copies").select(columns).rows() == theirs.table("copies").select(columns).rows()


def oldest(gym_env: Any) -> int:
    """Return the place of the node that FIFO takes: of the job that arrived first, the first."""
    seen = gym_env.simulation.problem.observation
    order = {job_id: number for number, job_id in enumerate(seen.jobs)}
    keys = [(order[state.job.job_id], node) for state, node in seen.ready.values()]
    return keys.index(min(keys))


def test_waiting_is_forced_while_all_executors_are_down() -> None:
    job = Job(1, [4.0, 1.0], [(0, 1, 0.0)])
    down = planned_outages([ALL_DOWN])
    cluster = DagCluster([job], Executors([1.0] * 3), processes=[down])
    returns = []
    for skip in (False, True):
        gym_env = DagEnv([cluster], 3, max_nodes=2, reward="turnaround_time_mean", skip_forced=skip)
        steps = play(gym_env, lambda gym_env, seen: int(gym_env.action_masks().argmax()), seed=0)
        times = [step[4]["time"] for step in steps]
        returns.append(total(steps))
        # Node 0 is lost at 3 and runs again from 7 to 11; node 1 runs until 12.
        assert times == ([0.0, 7.0, 11.0, 12.0] if skip else [0.0, 3.0, 7.0, 11.0, 12.0])
        assert not any(step[4]["invalid"] for step in steps)
    assert returns == pytest.approx([-12 / 10_000] * 2)


def test_default_episodes_share_their_executors() -> None:
    gym_env = DagEnv(num_jobs=2, num_executors=4)
    speeds = [play(gym_env, Masked(), seed=seed, most=1)[0][0]["executors"][:, 1].tolist() for seed in (1, 2)]
    assert speeds[0] == speeds[1]
    other = DagEnv(num_jobs=2, num_executors=4, workload_seed=1)
    assert play(other, Masked(), seed=1, most=1)[0][0]["executors"][:, 1].tolist() != speeds[0]


def test_what_does_not_fit_is_refused() -> None:
    cluster = DagCluster([Job(1, [1.0])], Executors([1.0, 1.0]))
    decision = Simulation(cluster).advance()
    assert decision is not None
    wrong: list[tuple[Any, str]] = [
        (lambda: DagEnv([cluster], 3).reset(seed=0), "executors: got 2 in the cluster, expected 3"),
        (lambda: NodeEncoder(0, 5), "num_executors, max_nodes: got 0, 5, expected at least 1 each"),
        (lambda: NodeEncoder(5, 0), "num_executors, max_nodes: got 5, 0, expected at least 1 each"),
        (lambda: NodeEncoder(2, 5).decode(decision.observation, -1), "action: got -1, expected an integer from 0 to 9"),
        (lambda: NodeEncoder(2, 5).decode(decision.observation, 10), "action: got 10, expected an integer from 0 to 9"),
        (lambda: MakespanReward(0.0), "scale"),
        (lambda: CompletionTimeReward(0.0), "scale"),
    ]
    for make, message in wrong:
        with pytest.raises(InvalidConfiguration, match=message):
            make()
