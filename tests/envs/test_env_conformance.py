"""What holds for the environments of all problems: the interfaces that other libraries rely on."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import re
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_cases import SMALL, Masked, Unmasked, make, play, same, total
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from node_cases import node_settings

from desim import plugins
from desim.envs import FlattenArrays, SchedulingEnv, environments
from desim.exceptions import DesimError, InvalidConfiguration, MissingDependency
from desim.validation import validate

NAMES = sorted(environments())
DISCRETE = ["desim/Batch-v0", "desim/Dag-v0"]
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("desim/Batch-v0", {"observation": "flat", "reward": "paper", "arrivals": "closed"}),
    ("desim/Batch-v0", {"observation": "flat-sorted", "reward": "scaled", "skip_forced": True}),
    ("desim/Batch-v0", node_settings()),
    ("desim/Batch-v0", node_settings(action="job-on-node", skip_forced=True)),
    ("desim/Batch-v0", node_settings(observation="node-classes", reward="paper", arrivals="closed")),
    ("desim/Dag-v0", {"reward": "turnaround_time_mean", "max_nodes": 1}),
    ("desim/Deferrable-v0", {"max_jobs": 1, "rule": "skip", "threshold": 0.0, "reward": "utilization"}),
]


def brief(value: Any) -> str:
    """Return a setting without all jobs and nodes."""
    if not isinstance(value, dict):
        return str(value)
    return str({name: len(part) if isinstance(part, list) else part for name, part in value.items()})


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=brief)
def test_gymnasium_has_nothing_to_complain_of(name: str, settings: dict[str, Any]) -> None:
    check_env(make(name, **settings))


@pytest.mark.parametrize("name", NAMES)
def test_the_default_settings_are_sound(name: str) -> None:
    check_env(gymnasium.make(name).unwrapped)


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=brief)
def test_stable_baselines_has_nothing_to_complain_of(name: str, settings: dict[str, Any]) -> None:
    env_checker = pytest.importorskip("stable_baselines3.common.env_checker")
    env_checker.check_env(FlattenArrays(make(name, **settings)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env_checker.check_env(make(name, **settings))
    # Tables stay tables, for networks that look at rows; that all else is sound has just been shown.
    advice = re.compile(r"Your observation \w+ has an unconventional shape")
    assert [str(warning.message) for warning in caught if not advice.match(str(warning.message))] == []


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=brief)
@pytest.mark.parametrize("rule", [Masked, Unmasked])
def test_observations_and_masks_stay_within_their_spaces(
    name: str, settings: dict[str, Any], rule: type[Masked]
) -> None:
    gym_env = make(name, **settings)
    space = gym_env.observation_space
    bounded = [box for box in space.spaces.values() if np.isfinite(box.low).all() and np.isfinite(box.high).all()]
    assert len(bounded) == len(space.spaces)
    for seed in range(3):
        for seen, reward, _, _, info in play(gym_env, rule(seed), seed=seed):
            wrong = [name for name, array in seen.items() if array not in space[name]]
            assert wrong == []
            assert isinstance(reward, float)
            assert [type(info[key]) for key in ("time", "elapsed", "invalid")] == [float, float, bool]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_episode(name: str) -> None:
    first, second = make(name), make(name)
    for gym_env in (first, second):
        play(gym_env, Masked(), seed=9, most=3)  # what came before plays no part
    ours, theirs = play(first, Masked(3), seed=5), play(second, Masked(3), seed=5)
    assert [step[1:] for step in ours] == [step[1:] for step in theirs]
    assert all(same(left[0], right[0]) for left, right in zip(ours, theirs, strict=True))
    ours, theirs = play(first, Masked(4)), play(second, Masked(4))
    assert [step[1:] for step in ours] == [step[1:] for step in theirs]
    other = play(first, Masked(3), seed=6)
    assert [step[1:] for step in other] != [step[1:] for step in play(second, Masked(3), seed=5)]


@pytest.fixture(scope="module")
def ready_forkserver() -> None:
    """Let the process that others are forked from import once what all of them need."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(
        ["desim.envs", "desim.plugins", "desim.workloads.batch.registry", "desim.workloads.dag.registry"]
    )


def build(name: str) -> gymnasium.Env:
    """Make an environment, perhaps in another process."""
    return gymnasium.make(f"desim.envs:{name}", **SMALL[name])


def played_one_by_one(name: str, actions: list[Any], seed: int) -> Iterator[tuple[Any, ...]]:
    """Yield what a vector of environments has to yield: after the end of an episode, a step begins the next."""
    gym_envs = [build(name) for _ in range(len(actions[0]))]
    yield tuple(gym_env.reset(seed=seed + number)[0] for number, gym_env in enumerate(gym_envs))
    over = [False] * len(gym_envs)
    for chosen in actions:
        row = []
        for number, (gym_env, action) in enumerate(zip(gym_envs, chosen, strict=True)):
            step = (gym_env.reset()[0], 0.0, False, False) if over[number] else gym_env.step(action)[:4]
            over[number] = step[2] or step[3]
            row.append(step)
        yield tuple(row)


@pytest.mark.usefixtures("ready_forkserver")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [SyncVectorEnv, partial(AsyncVectorEnv, context="forkserver")], ids=["sync", "async"])
def test_vectors_of_environments_do_what_each_does_alone(name: str, kind: Any) -> None:
    rng = np.random.default_rng(2)
    vector = kind([partial(build, name), partial(build, name)])
    try:
        space = vector.single_action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            actions = list(rng.integers(space.n, size=(250, 2)))
        else:
            actions = [rng.uniform(-1, 1, (2, *space.shape)).astype(np.float32) for _ in range(70)]
        expected = played_one_by_one(name, actions, 7)
        seen, _ = vector.reset(seed=7)
        for number, alone in enumerate(next(expected)):
            assert same({key: array[number] for key, array in seen.items()}, alone)
        ends = 0
        for action, row in zip(actions, expected, strict=True):
            seen, rewards, terminated, truncated, _ = vector.step(action)
            for number, alone in enumerate(row):
                assert same({key: array[number] for key, array in seen.items()}, alone[0])
                assert (rewards[number], terminated[number], truncated[number]) == alone[1:]
                ends += alone[2] or alone[3]
        assert ends > 0  # so that the beginning of a next episode was seen, too
    finally:
        vector.close()


@pytest.mark.parametrize("name", NAMES)
def test_all_possible_actions_are_valid_and_the_others_are_not(name: str) -> None:
    gym_env = make(name)
    invalid = 0
    for seed in range(4):
        rule = Unmasked(seed)
        seen, _ = gym_env.reset(seed=seed)
        over = False
        while not over:
            action, mask = rule(gym_env, seen), gym_env.action_masks()
            assert mask.dtype == np.bool_
            assert np.array_equal(mask, seen["action_mask"].ravel())
            seen, _, terminated, truncated, info = gym_env.step(action)
            assert info["invalid"] == (name in DISCRETE and not mask[action])
            invalid += info["invalid"]
            over = terminated or truncated
    assert (invalid > 0) == (name in DISCRETE)


@pytest.mark.parametrize("name", DISCRETE)
def test_some_action_is_possible_even_at_the_end(name: str) -> None:
    gym_env = make(name)
    steps = play(gym_env, Masked(), seed=0)
    assert all(step[0]["action_mask"].any() for step in steps)
    assert gym_env.action_masks().any()


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=brief)
@pytest.mark.parametrize("rule", [Masked, Unmasked])
def test_the_records_of_an_episode_are_sound(name: str, settings: dict[str, Any], rule: type[Masked]) -> None:
    gym_env = make(name, **settings)
    steps = play(gym_env, rule(1), seed=1)
    result = gym_env.result()
    report = validate(result)
    assert report.ok, str(report)
    assert result.info["end_time"] == steps[-1][4]["time"]
    assert sum(step[4]["elapsed"] for step in steps) == pytest.approx(steps[-1][4]["time"] - steps[0][4]["time"])
    assert steps[-1][4]["decisions"] == len(steps) - 1


@pytest.mark.parametrize("name", NAMES)
def test_limits_truncate_and_the_end_of_all_work_terminates(name: str) -> None:
    done = {"desim/Batch-v0": {"arrivals": "closed"}, "desim/Deferrable-v0": {"until": np.inf}}.get(name, {})
    steps = play(make(name, **done), Masked(), seed=3)
    assert steps[-1][2:4] == (True, False)
    assert all(step[2:4] == (False, False) for step in steps[:-1])
    for limit in ({"max_decisions": 7}, {"until": steps[7][4]["time"] + 0.5}):
        cut = play(make(name, **done | limit), Masked(), seed=3)
        assert cut[-1][2:4] == (False, True)
        assert len(cut) == 8 if "max_decisions" in limit else cut[-1][4]["time"] == limit["until"]


@pytest.mark.parametrize("name", NAMES)
def test_what_comes_before_and_after_an_episode(name: str) -> None:
    gym_env = make(name)
    for ask in (gym_env.action_masks, lambda: gym_env.simulation, lambda: gym_env.step(0)):
        with pytest.raises(DesimError, match=r"call reset\(\)"):
            ask()
    play(gym_env, Masked(), seed=0)
    with pytest.raises(DesimError, match="over"):
        gym_env.step(Masked()(gym_env, {}))


@pytest.mark.parametrize("name", NAMES)
def test_encoders_can_be_copied_and_sent_to_other_processes(name: str) -> None:
    gym_env = make(name)
    steps = play(gym_env, Masked(), seed=0, most=5)
    observation = gym_env.simulation.problem.observation
    for other in (copy.deepcopy(gym_env.encoder), pickle.loads(pickle.dumps(gym_env.encoder))):
        assert same(other.encode(observation), steps[-1][0])


@pytest.mark.parametrize("name", NAMES)
def test_wrong_settings_are_named(name: str) -> None:
    for wrong in ({"until": 0.0}, {"max_decisions": 0}, {"observation": "picture"}, {"reward": "praise"}):
        ((key, value),) = wrong.items()
        with pytest.raises(InvalidConfiguration, match=f"{value!r}"):
            make(name, **{key: value})


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_workload_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "kinds", dict)
    with pytest.raises(MissingDependency, match="no installed package generates workloads"):
        make(name)


@pytest.mark.parametrize("name", NAMES)
def test_flat_arrays_hold_the_same_numbers(name: str) -> None:
    flat, plain = FlattenArrays(make(name)), make(name)
    seen, other = flat.reset(seed=1)[0], plain.reset(seed=1)[0]
    assert isinstance(flat.unwrapped, SchedulingEnv)
    assert np.array_equal(flat.action_masks(), plain.action_masks())
    for key, array in seen.items():
        assert array.ndim == 1
        assert np.array_equal(array, other[key].ravel())
        assert array in flat.observation_space[key]
    with pytest.raises(InvalidConfiguration, match=r"observation_space: got Box\(.*, expected a Dict"):
        FlattenArrays(gymnasium.make("CartPole-v1"))


@pytest.mark.parametrize("name", ["desim/Batch-v0", "desim/Deferrable-v0"])
def test_skipping_what_is_forced_earns_the_same(name: str) -> None:
    settings: dict[str, Any] = {"desim/Batch-v0": {"arrivals": "closed", "window": (2, 1)}}.get(name, {})
    returns, counts = [], []
    for skip in (False, True):
        gym_env = make(name, skip_forced=skip, **settings)
        for seed in range(3):
            steps = play(gym_env, first_possible, seed=seed)
            returns.append(total(steps))
            counts.append(len(steps))
            assert sum(step[4]["elapsed"] for step in steps) == pytest.approx(
                gym_env.simulation.end_time - steps[0][4]["time"]
            )
    assert returns[:3] == pytest.approx(returns[3:], rel=1e-12)
    assert sum(counts[3:]) < sum(counts[:3])


def first_possible(gym_env: Any, seen: dict[str, np.ndarray]) -> Any:
    """Choose the first possible action, or the largest of all that is a matter of degree."""
    if isinstance(gym_env.action_space, gymnasium.spaces.Discrete):
        return int(gym_env.action_masks().argmax())
    return gym_env.action_space.high


def test_maskable_ppo_trains_unmodified() -> None:
    MaskablePPO = pytest.importorskip("sb3_contrib").MaskablePPO
    gym_env = gymnasium.make("desim/Batch-v0")
    model = MaskablePPO("MultiInputPolicy", gym_env, n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu")
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(256)
    assert model.num_timesteps == 256
    assert any(not value.equal(before[name]) for name, value in model.policy.state_dict().items())
    seen, _ = gym_env.reset(seed=1)
    for _ in range(50):
        action, _ = model.predict(seen, action_masks=gym_env.get_wrapper_attr("action_masks")())
        seen, _, _, _, info = gym_env.step(action)
        assert not info["invalid"]


@pytest.mark.parametrize("name", ["desim/Deferrable-v0", "desim/MultiServer-v0"])
def test_ppo_trains_on_what_is_not_discrete(name: str) -> None:
    PPO = pytest.importorskip("stable_baselines3").PPO
    model = PPO("MultiInputPolicy", make(name), n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu")
    assert model.learn(64).num_timesteps == 64


@pytest.mark.parametrize("name", DISCRETE)
def test_what_is_no_member_of_a_discrete_space_is_refused(name: str) -> None:
    env = make(name)
    env.reset(seed=1)
    for action in (2.9, np.float32(2.9), -0.5, 0.0, True, np.bool_(True), "0", None, -1, int(env.action_space.n)):
        with pytest.raises(InvalidConfiguration, match=r"^action: got .*, expected an integer from 0 to "):
            env.step(action)
    env.step(np.array(env.action_masks().argmax()))  # as learning libraries give it
