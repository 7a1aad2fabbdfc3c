"""Experience of many environments against one environment at a time; whole episodes; states; processes; evaluation."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from learning_cases import (
    Line,
    Point,
    PointPolicy,
    assert_same,
    batch_of,
    collector,
    line_length,
    line_policy,
)

from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.batch.training import DBFTraining, EpisodeOptions, SplitWindowTraining
from desim.agents.learning.experience import PER_STEP, Collector, Experience, concatenated, evaluate, mean_of
from desim.agents.learning.policy import Gaussian, MLPPolicy, Policy
from desim.agents.learning.workers import WorkerCollector
from desim.envs import ACTION_MASK
from desim.exceptions import DesimError, InvalidConfiguration
from desim.problems.batch.env import WaitingCost


def copied(seen: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(array) for name, array in seen.items()}


class Naive:
    """Environments in lists, acted in one step after the other; written without regard to speed."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.rngs = [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(count)]
        self.rng = np.random.default_rng(seed + 1)
        self.envs = [Line() for _ in self.rngs]
        self.seen = [self.reset(number) for number in range(count)]
        self.episodes: list[dict[str, float]] = []
        self.earned, self.lengths = [0.0] * count, [0] * count

    def reset(self, number: int) -> dict[str, Any]:
        return copied(self.envs[number].reset(seed=int(self.rngs[number].integers(2**31)))[0])

    def steps(self, policy: Policy, count: int) -> list[list[dict[str, Any]]]:
        """Return a dictionary a step and environment."""
        found = []
        for _ in range(count):
            with torch.no_grad():
                distribution, values = policy(batch_of(self.seen))
                actions = distribution.sample(self.rng)
                logs = distribution.log_prob(actions)
            rows = []
            for number, env in enumerate(self.envs):
                after, reward, terminated, truncated, info = env.step(int(actions[number]))
                self.earned[number] += reward
                self.lengths[number] += 1
                final = 0.0
                if truncated:
                    with torch.no_grad():
                        final = float(policy(batch_of([copied(after)]))[1])
                rows.append(
                    self.seen[number]
                    | {
                        "actions": int(actions[number]),
                        "log_probs": float(logs[number]),
                        "values": float(values[number]),
                        "rewards": reward,
                        "elapsed": info["elapsed"],
                        "ends": terminated or truncated,
                        "final_values": final,
                    }
                )
                self.seen[number] = copied(after)
                if terminated or truncated:
                    ended = {"return": self.earned[number], "length": self.lengths[number], "place": env.place}
                    self.episodes.append(ended)
                    self.earned[number], self.lengths[number] = 0.0, 0
                    self.seen[number] = self.reset(number)
            found.append(rows)
        return found


def test_it_is_what_each_environment_goes_through_alone() -> None:
    policy, count = line_policy(), 5
    together, naive = collector(count), Naive(count)
    for length in (11, 1, 16):
        found = together.collect(policy, length)
        naive.episodes = []
        expected = naive.steps(policy, length)
        for name in ("x", "mask", "actions", "log_probs", "values", "rewards", "elapsed", "ends", "final_values"):
            array = found.observations[name] if name in found.observations else getattr(found, name)
            wanted = np.array([[row[name] for row in rows] for rows in expected])
            np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
        with torch.no_grad():
            np.testing.assert_allclose(found.last_values, policy(batch_of(naive.seen))[1].numpy(), rtol=1e-5)
        assert found.valid.all()
        assert found.num_steps == length * count
        assert [tuple(one.values()) for one in found.episodes] == [tuple(one.values()) for one in naive.episodes]
    assert len(naive.episodes) > 5


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", ["Batch", "Dag", "Deferrable"])
def test_environments_of_desim_are_asked_together_for_what_each_would_show(name: str, whole: bool) -> None:
    settings: dict[str, Any] = {
        "Batch": {"num_cores": 16, "num_jobs": 12, "window": (4, 2), "max_decisions": 20},
        "Dag": {"num_executors": 3, "max_nodes": 6, "num_jobs": 2},
        "Deferrable": {"max_jobs": 6, "until": 15},
    }[name]

    def plain() -> Any:
        return gymnasium.make(f"desim/{name}-v0", **settings).unwrapped

    def collected(make_env: Callable[[], Any]) -> Experience:
        together = Collector(make_env, np.random.SeedSequence(3).spawn(4), np.random.default_rng(0))
        if whole:
            return together.collect_episodes(policy, 25)
        together.collect(policy, 7)
        return together.collect(policy, 25)

    env = plain()
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        sizes = {
            part: int(np.prod(space.shape)) for part, space in env.observation_space.items() if part != ACTION_MASK
        }
        policy: Policy = MLPPolicy(
            sizes, int(env.action_space.n), np.random.default_rng(1), hidden=(8,), mask=ACTION_MASK
        )
    else:
        policy = Steady(*env.action_space.shape)
    found, alone = collected(plain), collected(lambda: gymnasium.Wrapper(plain()))
    assert found.ends.any()
    for part in (*PER_STEP, "last_values", "episodes"):
        np.testing.assert_array_equal(getattr(found, part), getattr(alone, part), err_msg=part)
    for part, array in found.observations.items():
        np.testing.assert_array_equal(array[found.valid], alone.observations[part][found.valid], err_msg=part)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        SplitWindowTraining,
        partial(SplitWindowTraining, reward="scaled", agent=SplitWindowConfig(reserve_after=3600.0)),
        DBFTraining,
    ],
)
def test_a_compiled_loop_gives_the_same_experience_to_the_bit(kind: Any, whole: bool) -> None:
    sizes = () if kind is DBFTraining else (64, 256)
    settings = kind(
        episodes=EpisodeOptions(num_traces=3, trace_jobs=120, num_jobs=30, load=(1.3,), cluster_sizes=sizes)
    )
    task, policy = settings.task(), settings.agent.policy(np.random.default_rng(0))
    seeds = np.random.SeedSequence(3).spawn(3)
    first, second = (
        Collector(task.make_env, seeds, np.random.default_rng(0), measure=task.measure, compiled=compiled)
        for compiled in (False, True)
    )
    episodes = 0
    for length in (40, 60):
        pair = [one.collect_episodes(policy, 200) if whole else one.collect(policy, length) for one in (first, second)]
        assert [one.engine for one in pair] == ["simpy", "compiled"]
        assert_same(*pair)
        episodes += len(pair[0].episodes)
    assert episodes
    assert first.state() == second.state()
    second.restore(json.loads(json.dumps(first.state())))
    assert_same(first.collect(policy, 20), second.collect(policy, 20))
    found = [
        evaluate(policy, task.make_validation_env, [1, 2, 3], rng=task.validation_rng(), compiled=compiled)
        for compiled in (False, True)
    ]
    assert found[0] == found[1]


class OwnReward(WaitingCost):
    """A reward whose class the compiled loop does not know."""


def test_where_the_compiled_loop_does_not_serve_environments_are_stepped_one_by_one() -> None:
    few = EpisodeOptions(num_traces=2, trace_jobs=60, num_jobs=20)
    settings = SplitWindowTraining(episodes=few, reward=f"{__name__}:OwnReward")
    seeds, policy = np.random.SeedSequence(3).spawn(2), settings.agent.policy(np.random.default_rng(0))
    made = Collector(settings.task().make_env, seeds, np.random.default_rng(0), compiled=settings.task().compiled)
    assert made.collect(policy, 3).engine == "simpy"


class Steady(Policy):
    """Draws numbers around 0 whatever it sees."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(size))

    def forward(self, observations: dict[str, torch.Tensor]) -> Any:
        count = len(next(iter(observations.values())))
        mean = self.mean.expand(count, -1)
        return Gaussian(mean, torch.full_like(mean, 0.3)), torch.zeros(count)


def test_arrays_that_are_no_dictionary_and_actions_that_are_arrays() -> None:
    found = Collector(Point, np.random.SeedSequence(3).spawn(3), np.random.default_rng(0)).collect(PointPolicy(), 9)
    assert found.observations["observation"].dtype == found.actions.dtype == np.float32
    assert found.observations["observation"].shape == found.actions.shape == (9, 3, 2)
    expected = -((found.actions - found.observations["observation"]) ** 2).sum(2)
    np.testing.assert_allclose(found.rewards, expected, rtol=1e-5)
    assert (found.elapsed == 1).all()  # as it is not told
    np.testing.assert_array_equal(np.flatnonzero(found.ends[:, 0]), [3, 7])


class TestWholeEpisodes:
    def test_each_environment_plays_one_from_its_beginning(self) -> None:
        policy, together = line_policy(), collector(6)
        together.collect(policy, 3)  # leaves them somewhere
        for _ in range(3):
            found = together.collect_episodes(policy, 50)
            lengths = found.valid.sum(0)
            assert len(found.rewards) == lengths.max() <= 7
            assert len(set(lengths.tolist())) > 1
            assert (found.observations["x"][0, :, 2] == 0).all()  # nothing taken yet
            for env, length in enumerate(lengths):
                assert found.valid[:length, env].all()
                assert not found.valid[length:, env].any()
                assert np.flatnonzero(found.ends[:, env]).tolist() == [length - 1]
                assert found.rewards[length:, env].tolist() == [0.0] * (len(found.rewards) - length)
            assert found.num_steps == lengths.sum()
            assert sorted(episode["length"] for episode in found.episodes) == sorted(lengths)
            earned = sorted(episode["return"] for episode in found.episodes)
            np.testing.assert_allclose(earned, np.sort(found.rewards.sum(0)))

    def test_one_that_is_too_long_is_cut_and_the_next_is_new(self) -> None:
        policy, together = line_policy(), collector(6)
        found = together.collect_episodes(policy, 2)
        assert found.valid.shape == (2, 6)
        cut = ~found.ends.any(0)
        assert cut.any()
        assert (found.last_values[cut] != 0).all()
        assert len(found.episodes) == 6 - cut.sum()
        following = together.collect_episodes(policy, 50)
        assert (following.observations["x"][0, :, 2] == 0).all()
        assert following.ends.any(0).all()

    def test_episodes_follow_one_another_without_a_gap(self) -> None:
        policy, together = line_policy(), collector(1)
        firsts = [together.collect_episodes(policy, 50).observations["x"][0, 0] for _ in range(4)]
        rng = np.random.default_rng(np.random.SeedSequence(0).spawn(1)[0])
        for first in firsts:
            np.testing.assert_array_equal(first, Line().reset(seed=int(rng.integers(2**31)))[0]["x"])


def test_groups_face_the_same_episodes_again_and_again() -> None:
    together = collector(6, groups=3)
    for longest in (50, 2, 50):  # also where some were cut and others not
        found = together.collect_episodes(line_policy(), longest)
        first = found.observations["x"][0]
        assert (first[:3] == first[0]).all()
        assert (first[3:] == first[3]).all()
        assert (first[0] != first[3]).any()
        assert len({tuple(column) for column in found.actions.T.tolist()}) > 2  # but they act for themselves
    assert found.group_size == 3


def test_shorter_experience_is_filled_up() -> None:
    policy = line_policy()
    parts = [collector(2, seed=limit, make=partial(Line, limit)).collect_episodes(policy, 50) for limit in (3, 2, 7)]
    lengths = [len(part.rewards) for part in parts]
    assert len(set(lengths)) > 1
    joined = concatenated(parts, 2)
    assert (joined.rewards.shape, joined.group_size) == ((max(lengths), 6), 2)
    for number, part in enumerate(parts):
        columns = slice(2 * number, 2 * number + 2)
        arrays = {name: (getattr(joined, name), getattr(part, name)) for name in PER_STEP}
        arrays |= {name: (joined.observations[name], array) for name, array in part.observations.items()}
        for whole, own in arrays.values():
            np.testing.assert_array_equal(whole[: lengths[number], columns], own)
            assert not whole[lengths[number] :, columns].any()
            assert whole.dtype == own.dtype
        np.testing.assert_array_equal(joined.last_values[columns], part.last_values)
    assert joined.num_steps == sum(part.num_steps for part in parts)
    assert joined.episodes == [episode for part in parts for episode in part.episodes]
    assert joined.seconds["infer"] == max(part.seconds["infer"] for part in parts)


class TestState:
    @pytest.mark.parametrize("whole", [False, True])
    def test_a_collector_goes_on_from_where_another_stood(self, whole: bool) -> None:
        def advance(one: Collector) -> Experience:
            return one.collect_episodes(policy, 4) if whole else one.collect(policy, 10)

        policy, first, second = line_policy(), collector(3), collector(3, seed=9)
        advance(first)
        advance(second)
        second.restore(json.loads(json.dumps(first.state())))
        for _ in range(2):
            assert_same(advance(first), advance(second))
        assert first.state() == second.state()

    def test_actions_that_are_arrays(self) -> None:
        policy = PointPolicy()
        first, second = (collector(2, seed=seed, make=Point) for seed in (0, 1))
        first.collect(policy, 6)
        second.restore(json.loads(json.dumps(first.state())))
        assert_same(first.collect(policy, 7), second.collect(policy, 7))

    def test_another_number_of_environments_is_refused(self) -> None:
        with pytest.raises(InvalidConfiguration, match="state: got 2 environments, expected 3"):
            collector(3).restore(collector(2).state())
        with pytest.raises(InvalidConfiguration, match="seeds: got none"):
            collector(0)


class TestEvaluation:
    def test_it_plays_each_seed_as_one_environment_would(self, monkeypatch: pytest.MonkeyPatch) -> None:
        policy, seeds = line_policy(3), list(range(100, 113))
        for together in (1, 4, 50):
            monkeypatch.setattr("desim.agents.learning.experience.TOGETHER", together)
            found = evaluate(policy, Line, seeds, measure=line_length)
            assert len(found) == len(seeds)
            for seed, episode in zip(seeds, found, strict=True):
                env, earned, length, over = Line(), 0.0, 0, False
                seen = env.reset(seed=seed)[0]
                while not over:
                    with torch.no_grad():
                        action = int(policy(batch_of([seen]))[0].mode())
                    seen, reward, terminated, truncated, _ = env.step(action)
                    earned, length, over = earned + reward, length + 1, terminated or truncated
                assert episode == {"return": pytest.approx(earned), "length": length, "place": env.place}

    def test_the_policy_is_left_as_it_was(self) -> None:
        policy = line_policy()
        for mode in (True, False):
            policy.train(mode)
            evaluate(policy, Line, [1])
            assert policy.training is mode
        with pytest.raises(ValueError, match="broken"):
            evaluate(policy.train(), lambda: Line(fails_after=2), [1])
        assert policy.training

    def test_other_shapes_and_nothing_at_all(self) -> None:
        (episode,) = evaluate(PointPolicy(), Point, [4])
        assert episode["length"] == 4
        assert episode["return"] < 0
        assert evaluate(line_policy(), Line, []) == []
        assert mean_of([]) == {}
        assert mean_of([{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 6.0}]) == {"a": 1.5, "b": 4.0}


class Stubborn(ValueError):
    """An error that cannot be sent from one process to another."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")
        self.reason = (part for part in (first, second))


class Failing(Line):
    """Fails twice, in two ways."""

    def step(self, action: Any) -> Any:
        """Fail at the fourth and at the fifth call."""
        if self.num_steps == 4:
            raise Stubborn("cannot", "go on")
        return super().step(action)


def failing_to_begin() -> Line:
    """Return nothing."""
    raise InvalidConfiguration("there is no line")


Make = Callable[..., WorkerCollector]


class TestProcesses:
    @pytest.fixture
    def made(self) -> Iterator[Make]:
        """Return a function that makes collectors, which are closed at the end."""
        collectors: list[WorkerCollector] = []

        def make(count: int, workers: int, env: Any = Line) -> WorkerCollector:
            seeds = np.random.SeedSequence(0).spawn(count)
            collectors.append(WorkerCollector(env, seeds, np.random.default_rng(0), workers, measure=line_length))
            return collectors[-1]

        yield make
        for one in collectors:
            one.close()

    def test_two_make_the_experience_of_two_collectors(self, made: Make) -> None:
        policy, count = line_policy(), 5
        seeds, rng = np.random.SeedSequence(0).spawn(count), np.random.default_rng(0)
        theirs = [
            Collector(Line, part, generator, measure=line_length)
            for part, generator in zip((seeds[:2], seeds[2:]), rng.spawn(2), strict=True)
        ]
        ours = made(count, 2)
        states = []
        for number in range(3):
            if number == 1:  # whole episodes in between
                first: Experience = ours.collect_episodes(policy, 6)
                second = concatenated([piece.collect_episodes(policy, 6) for piece in theirs])
            else:
                first, second = ours.collect(policy, 8), concatenated([piece.collect(policy, 8) for piece in theirs])
            assert_same(first, second)
            with torch.no_grad():  # the weights that they use are those of now
                for parameter in policy.parameters():
                    parameter.add_(0.1)
            states.append(json.loads(json.dumps(ours.state())))
        assert states[-1] == {"workers": [piece.state() for piece in theirs]}
        again = ours.collect(policy, 5)
        ours.restore(states[-1])
        assert_same(ours.collect(policy, 5), again)
        for other, number in (({"workers": states[0]["workers"][:1]}, 1), (theirs[0].state(), 0)):
            with pytest.raises(InvalidConfiguration, match=f"state: got {number} workers, expected 2"):
                ours.restore(other)
        ours.close()
        ours.close()  # once more does no harm
        with pytest.raises(DesimError, match="ended unexpectedly"):
            ours.collect(policy, 2)

    def test_errors_and_the_end_of_a_process_reach_the_caller(self, made: Make) -> None:
        policy = line_policy()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            ours = made(1, 1, partial(Failing, fails_after=4))
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        finally:
            signal.signal(signal.SIGINT, before)
        ours.collect(policy, 3)
        with pytest.raises(ValueError, match="the line is broken at") as caught:
            ours.collect(policy, 3)
        assert any("in step" in note and "learning_cases.py" in note for note in caught.value.__notes__)  # where it was
        with pytest.raises(DesimError) as told:
            ours.collect(policy, 3)
        assert str(told.value) == "Stubborn: cannot go on"  # the error itself cannot be sent
        (process,) = [one for one in Path("/proc").glob("[0-9]*/status") if _is_child(one)]
        (ignored,) = (line.split()[1] for line in process.read_text().splitlines() if line.startswith("SigIgn"))
        assert int(ignored, 16) >> (signal.SIGINT - 1) & 1  # it ignores Ctrl-C from its first moment
        os.kill(int(process.parent.name), signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(DesimError, match="a worker process ended unexpectedly"):
                ours.collect(policy, 2)

    def test_an_environment_that_cannot_be_made_is_told(self, made: Make, capfd: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(InvalidConfiguration, match="there is no line"):
            made(2, 1, failing_to_begin).collect(line_policy(), 5)
        assert capfd.readouterr().err == ""
        with pytest.raises(InvalidConfiguration, match="num_workers: got 4, expected 1 to 3"):
            made(3, 4)


def _is_child(status: Path) -> bool:
    """Tell whether a process was spawned by this one."""
    try:
        is_ours = f"PPid:\t{os.getpid()}\n" in status.read_text()
        return is_ours and b"spawn_main" in (status.parent / "cmdline").read_bytes()
    except OSError:
        return False
