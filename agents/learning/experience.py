"""Collect experience in many environments with one batched inference per step, and evaluate policies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from desim.agents.learning.lanes import CompiledLanes, Lanes, Measure, lanes_of
from desim.agents.learning.policy import Distribution, Policy, one_thread, to_tensors
from desim.envs.base import Arrays
from desim.exceptions import InvalidConfiguration

__all__ = ["Collector", "Experience", "concatenated", "evaluate", "mean_of"]

PER_STEP = ("actions", "log_probs", "values", "rewards", "elapsed", "ends", "final_values", "valid")
"""Arrays of an experience with one entry per step, besides the observations."""

AT_ONCE = 512
"""Batch size for values and actions that are computed after the episode."""

TOGETHER = 32
"""Largest number of environments that advance at the same time in an evaluation."""


@dataclass
class Experience:
    """Transitions of N environments over T steps.

    Attributes
    ----------
    observations : dict of str to array, shape (T, N, ...)
        Observations before each action.
    actions : array, shape (T, N, ...)
        Actions taken.
    log_probs, values : array of float, shape (T, N)
        Log-probabilities of the actions and values of the observations, by the policy that acted.
    rewards : array of float, shape (T, N)
        Rewards of the actions.
    elapsed : array of float, shape (T, N)
        Simulated time from each action to the next decision; 1 where an environment does not report it.
    ends : array of bool, shape (T, N)
        Whether the episode ended with the action.
    final_values : array of float, shape (T, N)
        Values of the last observations of truncated episodes, else 0.
    last_values : array of float, shape (N,)
        Values of the observations after the last step.
    valid : array of bool, shape (T, N)
        Whether the step took place. When whole episodes are collected, steps after the end of one are False.
    group_size : int
        Number of neighbouring environments that faced the same episodes.
    episodes : list of dict
        ``return``, ``length`` and any further measures of each episode that ended.
    seconds : dict of str to float
        Wall-clock time spent on ``simulate`` and on ``infer``.
    engine : str
        What stepped the environments: ``"simpy"``, or ``"compiled"`` for a compiled loop.
    """

    observations: Arrays
    actions: NDArray[Any]
    log_probs: NDArray[np.float32]
    values: NDArray[np.float32]
    rewards: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    ends: NDArray[np.bool_]
    final_values: NDArray[np.float32]
    last_values: NDArray[np.float32]
    valid: NDArray[np.bool_]
    group_size: int = 1
    episodes: list[dict[str, float]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    engine: str = "simpy"

    @property
    def num_steps(self) -> int:
        """Number of valid steps."""
        return int(self.valid.sum())

    def in_a_row(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the valid steps of an array of shape (T, N, ...) on one axis; a view if all steps are valid."""
        if self.valid.all() and array.flags.c_contiguous:
            return array.reshape(-1, *array.shape[2:])
        chosen: NDArray[Any] = array[self.valid]
        return chosen


def concatenated(parts: Sequence[Experience], group_size: int = 1) -> Experience:
    """Join several experiences along the axis of environments.

    Parameters
    ----------
    parts : sequence of Experience
        Experience of environments of the same kind; shorter parts are padded with invalid steps.
    group_size : int
        Number of neighbouring environments in the result that faced the same episodes.

    Returns
    -------
    Experience
        Experience of all environments in the order of the parts; of each kind of seconds, the largest value.
    """
    length = max(len(part.rewards) for part in parts)

    def joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        """Return arrays joined along axis 1, padded with zeros."""
        if any(len(array) < length for array in arrays):
            rests = [(0, length - len(array)) for array in arrays]
            arrays = [np.pad(a, [rest, *[(0, 0)] * (a.ndim - 1)]) for a, rest in zip(arrays, rests, strict=True)]
        return np.concatenate(arrays, axis=1)

    names = parts[0].observations
    return Experience(
        observations={name: joined([part.observations[name] for part in parts]) for name in names},
        last_values=np.concatenate([part.last_values for part in parts]),
        group_size=group_size,
        episodes=[episode for part in parts for episode in part.episodes],
        seconds={name: max(part.seconds[name] for part in parts) for name in parts[0].seconds},
        engine=parts[0].engine,
        **{name: joined([getattr(part, name) for part in parts]) for name in PER_STEP},
    )


class Collector:
    """Collector of experience: a policy acts in many environments at once, in this process.

    An environment whose episode has ended is reset immediately; each has its own generator of episode seeds.

    Parameters
    ----------
    make_env : callable
        Function that returns a new Gymnasium environment.
    seeds : sequence of numpy.random.SeedSequence
        Seed of each environment. Environments with equal seeds face the same episodes.
    rng : numpy.random.Generator
        Generator for sampled actions.
    measure : callable, optional
        Function that is called with an environment at the end of an episode and returns measures by name.
    group_size : int
        Number of neighbouring environments with equal seeds.
    compiled : bool
        Whether a compiled loop steps the environments, if the problem has one that serves them. The measure then
        receives an object whose ``unwrapped.result()`` returns the records of the episode.

    Raises
    ------
    InvalidConfiguration
        If ``seeds`` is empty.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env[Any, Any]],
        seeds: Sequence[np.random.SeedSequence],
        rng: np.random.Generator,
        *,
        measure: Measure | None = None,
        group_size: int = 1,
        compiled: bool = False,
    ) -> None:
        if not seeds:
            raise InvalidConfiguration("seeds: got none, expected one for each environment, at least one")
        self.rng = rng
        self.measure = measure
        self.group_size = group_size
        self._lanes = lanes_of(make_env, len(seeds), compiled=compiled)
        self._seeds = [np.random.default_rng(seed) for seed in seeds]
        for number in range(len(seeds)):
            self._begin(number)

    def _begin(self, number: int) -> None:
        self._lanes.begin(number, int(self._seeds[number].integers(2**31)))

    def state(self) -> dict[str, Any]:
        """Return the state of all environments and generators as plain values."""
        pairs = zip(self._lanes.state(), self._seeds, strict=True)
        envs = [state | {"rng": rng.bit_generator.state} for state, rng in pairs]
        return {"rng": self.rng.bit_generator.state, "envs": envs}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state of a collector with the same number of environments by replaying actions.

        Parameters
        ----------
        state : dict
            Result of :meth:`state`.

        Raises
        ------
        InvalidConfiguration
            If the number of environments differs.
        """
        if len(state["envs"]) != len(self._lanes):
            raise InvalidConfiguration(f"state: got {len(state['envs'])} environments, expected {len(self._lanes)}")
        self.rng.bit_generator.state = state["rng"]
        for rng, before in zip(self._seeds, state["envs"], strict=True):
            rng.bit_generator.state = before["rng"]
        self._lanes.restore(state["envs"])

    def collect(self, policy: Policy, num_steps: int) -> Experience:
        """Return experience of T further steps in every environment; all steps are valid."""
        return self._run(policy, num_steps, whole=False)

    def collect_episodes(self, policy: Policy, longest: int) -> Experience:
        """Return one whole episode of every environment; one of more than ``longest`` steps is truncated there."""
        for number in range(len(self._lanes)):
            if self._lanes.has_begun(number):
                self._begin(number)
        return self._run(policy, longest, whole=True)

    def _run(self, policy: Policy, num_steps: int, *, whole: bool) -> Experience:
        notes = _Notes(self._lanes, num_steps, policy)
        done = np.zeros(len(self._lanes), np.bool_)
        step = 0
        with torch.inference_mode(), one_thread():
            while step < num_steps and not done.all():
                actions, asked = notes.act(step, self.rng), ~done
                gone = self._lanes.step(actions, asked)
                notes.valid[step], notes.rewards[step], notes.elapsed[step] = asked, gone.rewards, gone.elapsed
                for number in (gone.terminated | gone.truncated).nonzero()[0].tolist():
                    notes.end(step, number, truncated=bool(gone.truncated[number]), measure=self.measure)
                    done[number] = whole
                    self._begin(number)
                notes.moved = asked
                step += 1
            return notes.experience(step, self.group_size, self.rng)


class _Notes:
    """Arrays of an experience while it is collected."""

    def __init__(self, lanes: Lanes | CompiledLanes, num_steps: int, policy: Policy) -> None:
        self.lanes, self.policy = lanes, policy
        self.device = next(policy.parameters()).device
        self.begin = time.perf_counter()
        self.infer = 0.0
        shape = (num_steps, len(lanes))
        self.observations = lanes.room((num_steps + 1, len(lanes)))
        self.moved = np.ones(len(lanes), np.bool_)  # environments whose observation is not stored yet
        space = lanes.action_space
        self.actions = np.zeros((*shape, *(space.shape or ())), space.dtype or np.int64)
        self.log_probs, self.values, self.final_values = (np.zeros(shape, np.float32) for _ in range(3))
        self.rewards, self.elapsed = np.zeros(shape), np.zeros(shape)
        self.ends, self.valid, self.unasked = (np.zeros(shape, np.bool_) for _ in range(3))
        self.episodes: list[dict[str, float]] = []
        self.truncated: list[tuple[int, int, Arrays]] = []

    def see(self, step: int) -> Arrays:
        """Store and return the observation of every environment."""
        seen = {name: array[step] for name, array in self.observations.items()}
        if self.moved.all():
            self.lanes.show(range(len(self.lanes)), seen)
        else:  # environments whose episode is over repeat the observation of the step before
            moved = self.moved.nonzero()[0].tolist()
            fresh = {name: np.empty_like(array[: len(moved)]) for name, array in seen.items()}
            if moved:
                self.lanes.show(moved, fresh)
            for name, array in seen.items():
                array[~self.moved] = self.observations[name][step - 1, ~self.moved]
                array[self.moved] = fresh[name]
        self.moved = np.zeros(len(self.lanes), np.bool_)
        return seen

    def act(self, step: int, rng: np.random.Generator) -> NDArray[Any]:
        """Store observations and actions; return the action of each environment."""
        seen = self.see(step)
        begin = time.perf_counter()
        if self.policy.apart and all(map(self.lanes.is_forced, range(len(self.lanes)))):
            self.unasked[step] = True
        else:
            shown = to_tensors(seen, self.device)
            ask: Any = self.policy
            distribution, values = (ask.distribution(shown), None) if ask.apart else ask(shown)
            self._note_actions(step, distribution, rng)
            if values is not None:
                self.values[step] = values.cpu().numpy()
        self.infer += time.perf_counter() - begin
        chosen: NDArray[Any] = self.actions[step]
        return chosen

    def end(self, step: int, number: int, *, truncated: bool, measure: Measure | None) -> None:
        """Store the end of an episode."""
        self.ends[step, number] = True
        if truncated:
            self.truncated.append((step, number, self.lanes.observation(number)))
        self.episodes.append(self.lanes.outcome(number, measure))

    def _note_actions(self, at: Any, distribution: Distribution, rng: np.random.Generator) -> None:
        """Sample actions for one step, or for some steps and environments."""
        actions = distribution.sample(rng)
        self.actions[at] = actions.cpu().numpy()
        self.log_probs[at] = distribution.log_prob(actions).cpu().numpy()

    def _make_good(self, length: int, rng: np.random.Generator) -> None:
        """Fill in the values of all decisions, and the actions that had no effect."""
        policy: Any = self.policy
        rows = self.valid[:length].nonzero()
        for first in range(0, len(rows[0]), AT_ONCE):
            part = rows[0][first : first + AT_ONCE], rows[1][first : first + AT_ONCE]
            shown = to_tensors({name: array[part] for name, array in self.observations.items()}, self.device)
            self.values[part] = policy.values(shown).cpu().numpy()
            left = self.unasked[part]
            if left.any():
                chosen = torch.from_numpy(left)
                few = {name: tensor[chosen.to(tensor.device)] for name, tensor in shown.items()}
                self._note_actions((part[0][left], part[1][left]), policy.distribution(few), rng)

    def experience(self, length: int, group_size: int, rng: np.random.Generator) -> Experience:
        """Return the experience of the first ``length`` steps."""
        seen = self.see(length)
        begin = time.perf_counter()
        if self.policy.apart:
            self._make_good(length, rng)
        last_values = self.policy(to_tensors(seen, self.device))[1]
        if self.truncated:
            steps, numbers, shown = zip(*self.truncated, strict=True)
            batch = {name: np.stack([one[name] for one in shown]) for name in self.observations}
            values = self.policy(to_tensors(batch, self.device))[1]
            self.final_values[list(steps), list(numbers)] = values.cpu().numpy()
        self.infer += time.perf_counter() - begin
        return Experience(
            observations={name: array[:length] for name, array in self.observations.items()},
            last_values=last_values.cpu().numpy(),
            group_size=group_size,
            episodes=self.episodes,
            seconds={"simulate": time.perf_counter() - self.begin - self.infer, "infer": self.infer},
            engine=self.lanes.engine,
            **{name: getattr(self, name)[:length] for name in PER_STEP},
        )


def evaluate(
    policy: Policy,
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    seeds: Sequence[int],
    *,
    measure: Measure | None = None,
    rng: np.random.Generator | None = None,
    compiled: bool = False,
) -> list[dict[str, float]]:
    """Run a policy for one episode per seed.

    Parameters
    ----------
    policy : Policy
        Policy to evaluate; neither its weights nor its normalizers change.
    make_env : callable
        Function that returns a new environment.
    seeds : sequence of int
        Seeds of the episodes.
    measure : callable, optional
        Function that is called with the environment at the end of an episode and returns measures by name.
    rng : numpy.random.Generator, optional
        Generator for sampled actions. Default: take the most likely action.
    compiled : bool
        As in :class:`Collector`.

    Returns
    -------
    list of dict
        ``return``, ``length`` and the measures of each episode, in the order of the seeds.
    """
    if not seeds:
        return []
    was_training = policy.training
    ask: Any = policy.eval()
    device = next(policy.parameters()).device
    found: list[dict[str, float]] = [{} for _ in seeds]
    lanes = lanes_of(make_env, min(TOGETHER, len(seeds)), compiled=compiled)
    places = list(range(len(lanes)))  # positions of the seeds of the current episodes
    for number in places:
        lanes.begin(number, seeds[number])
    following = len(lanes)
    active, seen = np.ones(len(lanes), np.bool_), lanes.room((len(lanes),))
    actions = np.zeros((len(lanes), *(lanes.action_space.shape or ())), lanes.action_space.dtype or np.int64)
    try:
        with torch.inference_mode(), one_thread():
            while active.any():
                asked, numbers = active.copy(), active.nonzero()[0].tolist()
                batch = {name: array[: len(numbers)] for name, array in seen.items()}
                lanes.show(numbers, batch)
                shown = to_tensors(batch, device)
                distribution = ask.distribution(shown) if ask.apart else ask(shown)[0]
                actions[asked] = (distribution.mode() if rng is None else distribution.sample(rng)).cpu().numpy()
                while asked.any():
                    gone = lanes.step(actions, asked)
                    for number in (gone.terminated | gone.truncated).nonzero()[0].tolist():
                        found[places[number]] = lanes.outcome(number, measure)
                        if following == len(seeds):
                            active[number] = False
                            continue
                        places[number] = following
                        lanes.begin(number, seeds[following])
                        following += 1
                    asked &= active & ask.apart
                    for number in asked.nonzero()[0].tolist():
                        asked[number] = lanes.is_forced(number)
                    actions[asked] = 0  # any action, as it has no effect
    finally:
        policy.train(was_training)
    return found


def mean_of(episodes: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every measure over episodes; empty if there are none.

    Parameters
    ----------
    episodes : sequence of dict
        Measures of each episode, all with the same names.
    """
    if not episodes:
        return {}
    return {name: float(np.mean([episode[name] for episode in episodes])) for name in episodes[0]}
