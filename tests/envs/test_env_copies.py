"""Copies of environments, what they render, and that they do what `simulate` does."""

from __future__ import annotations

import copy
import warnings
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_cases import SMALL, Masked, make, same
from gymnasium.utils.env_checker import check_env

from desim import simulate
from desim.agent_resolution import resolve_agent
from desim.core import prepare_agent
from desim.envs import FlattenArrays
from desim.exceptions import DesimError, InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.env import BatchEnv, WaitingCost
from desim.processes import Outage, planned_outages
from desim.workloads import lublin

OUTAGES = [planned_outages([Outage(500.0, 900.0, cores=[0, 1, 2]), Outage(2_000.0, 2_600.0, cores=range(9))])]


def failing(rng: np.random.Generator) -> BatchCluster:
    """Return a cluster whose cores fail."""
    return BatchCluster(lublin.generate(30, 16, seed=rng, load=0.9), 16, processes=OUTAGES)


def guarded(problem: Any) -> Any:
    """Keep a run going for a while by a process of a user's own, which cannot be copied."""
    yield problem.env.timeout(40.0)
    yield problem.env.timeout(20_000.0)


def with_own_process(rng: np.random.Generator) -> BatchCluster:
    return BatchCluster(lublin.generate(30, 16, seed=rng, load=0.9), 16, processes=[guarded])


class Telling(WaitingCost):
    """A reward of a user's own, which listens by a closure."""

    def reset(self, simulation: Any) -> None:
        super().reset(simulation)
        self.starts = 0

        def count(time: float, subject: Any) -> None:
            self.starts += 1

        simulation.problem.on("start", count)

    def pop_reward(self) -> float:
        return super().pop_reward() + self.starts


CASES: dict[str, Any] = {
    **{name: partial(make, name) for name in SMALL},
    "open": partial(make, "desim/Batch-v0", arrivals="open"),
    "forced": partial(make, "desim/Batch-v0", skip_forced=True, reward="long-waits", window=[(3, 2), (6, 3)]),
    "failing": partial(BatchEnv, failing, 16, skip_forced=True),
    "own process": partial(BatchEnv, with_own_process, 16, reward="paper"),
    "own reward": partial(BatchEnv, failing, 16, reward=Telling()),
    "completion": partial(make, "desim/Dag-v0", reward="turnaround_time_mean"),
}
REPLAYED = {"open", "failing", "own process", "own reward"}


def to_its_end(gym_env: Any) -> list[Any]:
    """Play to the end and begin the next episode; return all that was seen and recorded."""
    rule, seen, steps, over = Masked(5), gym_env.observe(), [], False
    while not over:
        action = rule(gym_env, seen)
        seen, reward, terminated, truncated, info = gym_env.step(action)
        steps.append((reward, terminated, truncated, info))
        over = terminated or truncated
    result = gym_env.result()
    tables = [result.table(name).rows() for name in result.table_names]
    following = gym_env.reset()[0]
    return [steps, tables, {name: array.tolist() for name, array in following.items()}, gym_env.action_space.sample()]


@pytest.mark.parametrize("case", CASES)
def test_copies_continue_equally_and_on_their_own(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gym_env = CASES[case]()
    replays: list[str] = []
    replay = type(gym_env)._replay

    def noted(self: Any, *parts: Any) -> None:
        replays.append(case)
        replay(self, *parts)

    monkeypatch.setattr(type(gym_env), "_replay", noted)
    gym_env.reset(seed=3)
    gym_env.action_space.seed(4)
    rule = Masked(1)
    for _ in range(12):
        seen = gym_env.step(rule(gym_env, gym_env.observe()))[0]
    twin, other = gym_env.copy(), copy.deepcopy(gym_env)
    assert bool(replays) == (case in REPLAYED)
    for _ in range(5):  # other actions in one environment leave the others as they are
        other.step(Masked(9)(other, other.observe()))
    assert same(seen, gym_env.observe())
    assert same(seen, twin.observe())
    ended = twin.copy()
    assert repr(to_its_end(gym_env)) == repr(to_its_end(twin)) == repr(to_its_end(ended))


def test_copies_before_and_after_an_episode() -> None:
    for name in SMALL:
        fresh = make(name)
        fresh.np_random.integers(9)
        twin = copy.deepcopy(fresh)
        assert same(fresh.reset()[0], twin.reset()[0])
        while not any(fresh.step(Masked()(fresh, fresh.observe()))[2:4]):
            pass
        over = fresh.copy()
        with pytest.raises(DesimError, match="over"):
            over.step(0)
        tables = over.result().table("jobs"), fresh.result().table("jobs"), fresh.copy().result().table("jobs")
        assert tables[0].equals(tables[1])
        assert tables[1].equals(tables[2])
        assert same(fresh.reset()[0], over.reset()[0])


def test_wrapped_environments_are_copied() -> None:
    gym_env = FlattenArrays(gymnasium.make("desim/Batch-v0", **SMALL["desim/Batch-v0"]))
    gym_env.reset(seed=1)
    twin = copy.deepcopy(gym_env)
    before = gym_env.action_masks()
    twin.step(0)
    assert np.array_equal(before, gym_env.action_masks())
    ours: Any = gym_env.unwrapped
    theirs: Any = twin.unwrapped
    assert theirs.simulation is not ours.simulation
    assert theirs.episodes is ours.episodes


def test_a_part_that_cannot_be_copied_is_told() -> None:
    gym_env = make("desim/Batch-v0")
    gym_env.reset(seed=1)
    gym_env.reward.source = (number for number in range(3))
    with pytest.raises(InvalidConfiguration, match=r"BatchEnv: a part of it cannot be copied: .*generator"):
        gym_env.copy()


class WholeRequests:
    """Give each port its whole request at the first of its nodes with room, nothing elsewhere."""

    name = "whole-requests"

    def act(self, observation: Any) -> Any:
        graph, free = observation.graph, observation.capacity.copy()
        given = np.zeros(graph.shape)
        for channel, request in enumerate(graph.channel_requests):
            node, port = graph.channel_node[channel], graph.channel_port[channel]
            served = given[graph.channel_port == port].any()
            if observation.arrived[port] and not served and (request < 0.99 * free[node]).all():
                given[channel] = request
                free[node] -= request
        return given


RULES: list[tuple[str, Any, dict[str, Any]]] = [
    ("desim/Batch-v0", "easy-sjf", {"window": (60, 0)}),
    ("desim/Batch-v0", "fcfs", {"window": (60, 0)}),
    ("desim/Dag-v0", "rank-up-eft", {"max_nodes": 64}),
    ("desim/Deferrable-v0", "sjf", {"max_jobs": 64, "until": np.inf}),
    ("desim/MultiServer-v0", WholeRequests(), {}),
]


@pytest.mark.parametrize(("name", "rule", "settings"), RULES)
def test_an_environment_driven_by_a_rule_records_what_simulate_does(
    name: str, rule: Any, settings: dict[str, Any]
) -> None:
    gym_env = make(name, **settings)
    for seed in (5, 6):
        gym_env.reset(seed=seed)
        simulation, over = gym_env.simulation, False
        agent = resolve_agent(simulation._configuration, rule)
        prepare_agent(agent, simulation)
        while not over:
            answer = agent.act(gym_env.observation)
            over = any(gym_env.step(gym_env.encoder.encode_action(gym_env.observation, answer))[2:4])
        driven, simulated = gym_env.result(), simulate(simulation._configuration, rule, seed=simulation.seed)
        assert driven.info["status"] == simulated.info["status"] == "complete"
        for table in simulated.table_names:
            assert driven.table(table).equals(simulated.table(table)), table


@pytest.mark.parametrize(
    "settings", [{}, {"observation": "flat"}, {"skip_forced": True, "reserve_after": 600.0}], ids=str
)
def test_no_job_is_left_behind_by_any_possible_actions(settings: dict[str, Any]) -> None:
    """Play at random with a liking for waiting: it is possible unless nothing else would ever happen."""
    gym_env, rng, last_chances = make("desim/Batch-v0", num_jobs=15, **settings), np.random.default_rng(0), 0
    for seed in range(6):
        gym_env.reset(seed=seed)
        over = False
        while not over:
            possible = gym_env.action_masks().nonzero()[0]
            assert len(possible)
            problem = gym_env.simulation.problem
            wait, queue = gym_env.action_space.n - 1, gym_env.simulation.env._queue
            if wait not in possible:
                assert not queue
                assert not gym_env.observation.can_wait
                assert not gym_env.encoder.decode(gym_env.observation, wait)[1]
                last_chances += 1
            elif not queue:  # nothing that could start is shown, so waiting is no choice
                assert len(possible) == 1
                assert problem.observation.can_wait is False
            action = wait if wait in possible and rng.random() < 0.9 else int(rng.choice(possible))
            _, _, terminated, truncated, info = gym_env.step(action)
            assert not info["invalid"]
            over = terminated or truncated
        assert (terminated, truncated) == (True, False)
        assert set(gym_env.result().jobs["status"]) == {"completed"}
    assert last_chances > 0


def test_a_repair_or_a_reservation_is_worth_waiting_for() -> None:
    """Two jobs; the second is due later: with it, waiting is possible. Afterwards nothing is left to wait for."""
    jobs = [Job(1, 0.0, 2, 10.0, 10.0), Job(2, 5.0, 2, 10.0, 10.0)]
    gym_env = BatchEnv(lambda rng: BatchCluster(jobs, 4), 4, window=(2, 0))
    masks = [gym_env.reset(seed=0)[0]["action_mask"].tolist()]
    masks += [gym_env.step(action)[0]["action_mask"].tolist() for action in (2, 0)]
    assert masks == [[1, 0, 1], [1, 1, 0], [1, 0, 1]]  # one may arrive; both wait, and nothing runs; one runs


@pytest.mark.parametrize("name", SMALL)
def test_pictures_and_text(name: str) -> None:
    gym_env = make(name, render_mode="rgb_array")
    text = make(name, render_mode="ansi")
    with pytest.raises(DesimError, match=r"call reset\(\)"):
        gym_env.render()
    gym_env.reset(seed=3)
    text.reset(seed=3)
    shapes, frames = set(), []
    for steps in (0, 12, 100_000):
        for _ in range(steps):
            if any(gym_env.step(Masked(2)(gym_env, gym_env.observe()))[2:4]):
                break
        frames.append(gym_env.render())
        shapes.add((frames[-1].shape, frames[-1].dtype))
    assert shapes == {((450, 800, 3), np.dtype(np.uint8))}
    assert not np.array_equal(frames[0], frames[1])
    first, second, *rest = text.render().split("\n")
    assert (first, second) == (name, repr(text.observation))
    assert "object at" not in second
    possible = text.action_masks().sum()
    assert [line.partition(":")[0] for line in rest] == (
        [f"{possible} of {text.action_space.n} actions are possible"] if hasattr(text.action_space, "n") else []
    )


def test_without_a_mode_nothing_is_rendered() -> None:
    gym_env = make("desim/Batch-v0")
    gym_env.reset(seed=1)
    with pytest.raises(
        InvalidConfiguration, match="render_mode: got 'human', expected one of None, 'ansi', 'rgb_array'"
    ):
        BatchEnv(failing, 16, render_mode="human")
    with pytest.warns(UserWarning, match="set render_mode"):
        assert gym_env.render() is None


@pytest.mark.parametrize("name", SMALL)
def test_checkers_give_no_warning(name: str) -> None:
    env_checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(name))
        env_checker.check_env(FlattenArrays(make(name, render_mode="ansi")))


@pytest.mark.parametrize("name", ["desim/Deferrable-v0", "desim/MultiServer-v0"])
def test_what_is_no_member_of_a_box_is_refused(name: str) -> None:
    gym_env = make(name)
    gym_env.reset(seed=1)
    space = gym_env.action_space
    fine = space.sample()
    wrong = fine.astype(np.float64)
    wrong.flat[0] = 1.5
    nan = fine.copy()
    nan.flat[-1] = np.nan
    for action, got in (
        (wrong, r"numbers from -[\d.]+ to 1.5"),
        (nan, "numbers from nan to nan"),
        (fine[:-1], r"an array of shape \("),
        (None, "None"),
        ("up", "'up'"),
        ([[0.0], [0.0, 1.0]], r"\[\["),
        (np.full(space.shape, True), "array"),
    ):
        expected = (
            rf"action: got {got}.*, expected an array of shape \({space.shape[0]}.* from -1 to 1; try action_space"
        )
        with pytest.raises(InvalidConfiguration, match=expected):
            gym_env.step(action)
    for action in (fine, fine.astype(np.float64), fine.tolist(), np.ones(space.shape, np.int8)):
        gym_env.step(action)
