"""Rollouts: many environments that advance together, with one inference for all of them a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from desim.agents.learning._lane import EnvState, Lane
from desim.agents.learning._recorder import PER_STEP, Recorder
from desim.agents.learning.policy import Policy, one_thread, to_tensors
from desim.exceptions import InvalidConfiguration

__all__ = ["Collector", "EnvState", "Rollout", "concatenated"]

Arrays = dict[str, NDArray[Any]]


@dataclass
class Rollout:
    """What N environments went through in T steps.

    Attributes
    ----------
    observations : dict of str to array, shape (T, N, ...)
        What was seen before each action.
    actions : array, shape (T, N, ...)
        What was done.
    log_probs, values : array of float, shape (T, N)
        Of the actions and observations, by the policy that acted.
    rewards : array of float, shape (T, N)
        What was earned.
    elapsed : array of float, shape (T, N)
        Simulated time from each action to the next decision; 1 where an environment does not tell.
    ends : array of bool, shape (T, N)
        Whether the episode ended with the action.
    final_values : array of float, shape (T, N)
        Values of the last observations of truncated episodes, else 0.
    last_values : array of float, shape (N,)
        Values of the observations after the last step.
    valid : array of bool, shape (T, N)
        Which steps there were: False behind the end of an episode in a rollout of whole episodes.
    episodes : list of dict
        ``return``, ``length`` and, if told so, measures of each episode that ended.
    seconds : dict of str to float
        Wall time by what it was spent on: ``simulate`` and ``infer``.
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
    episodes: list[dict[str, float]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """How many decisions it holds."""
        return int(self.valid.sum())


def concatenated(rollouts: Sequence[Rollout]) -> Rollout:
    """Return rollouts side by side, as one of all their environments.

    Parameters
    ----------
    rollouts : sequence of Rollout
        Of the same environments' kind; shorter ones are filled up with steps that are not valid.

    Returns
    -------
    Rollout
        Environments in the order of the rollouts; the seconds are the largest of each kind.
    """
    if len(rollouts) == 1:
        return rollouts[0]
    length = max(len(rollout.rewards) for rollout in rollouts)

    def joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        """Return arrays side by side."""
        return np.concatenate([_lengthened(array, length) for array in arrays], axis=1)

    names = rollouts[0].observations
    steps = {name: joined([getattr(rollout, name) for rollout in rollouts]) for name in PER_STEP}
    return Rollout(
        observations={name: joined([rollout.observations[name] for rollout in rollouts]) for name in names},
        last_values=np.concatenate([rollout.last_values for rollout in rollouts]),
        episodes=[episode for rollout in rollouts for episode in rollout.episodes],
        seconds={name: max(rollout.seconds[name] for rollout in rollouts) for name in rollouts[0].seconds},
        **steps,
    )


def _lengthened(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Fill an array up with zeros to a number of steps."""
    if len(array) == length:
        return array
    return np.concatenate([array, np.zeros((length - len(array), *array.shape[1:]), array.dtype)])


class Collector:
    """Lets a policy act in many environments at once, in this process.

    Environments are any of Gymnasium; observations that are arrays, not dictionaries, become
    ``{"observation": array}``. Those that have ended are reset at once, each with a seed from a generator of its own.

    Parameters
    ----------
    make_env : callable
        Returns a new environment.
    seeds : sequence of numpy.random.SeedSequence
        One for each environment. Environments with equal seeds face the same episodes.
    rng : numpy.random.Generator
        For the sampled actions.
    measure : callable, optional
        Called with an environment whose episode has ended; returns measures by name.

    Raises
    ------
    InvalidConfiguration
        If there is no environment.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env[Any, Any]],
        seeds: Sequence[np.random.SeedSequence],
        rng: np.random.Generator,
        *,
        measure: Callable[[gymnasium.Env[Any, Any]], dict[str, float]] | None = None,
    ) -> None:
        if not seeds:
            raise InvalidConfiguration("a rollout needs at least one environment")
        self.rng = rng
        self.measure = measure
        self._lanes = [Lane(make_env(), np.random.default_rng(seed)) for seed in seeds]

    def state(self) -> dict[str, Any]:
        """Return where all environments and the generator stand, as plain values."""
        return {"rng": self.rng.bit_generator.state, "envs": [lane.state() for lane in self._lanes]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where a collector with as many environments stood, by doing the same again.

        Parameters
        ----------
        state : dict
            Of :meth:`state`.

        Raises
        ------
        InvalidConfiguration
            If the number of environments differs.
        """
        if len(state["envs"]) != len(self._lanes):
            raise InvalidConfiguration(f"a state of {len(state['envs'])} environments, there are {len(self._lanes)}")
        self.rng.bit_generator.state = state["rng"]
        for lane, lane_state in zip(self._lanes, state["envs"], strict=True):
            lane.restore(lane_state)

    def collect(self, policy: Policy, num_steps: int) -> Rollout:
        """Act for a number of steps in every environment, from where they stand.

        Parameters
        ----------
        policy : Policy
            Who acts.
        num_steps : int
            Steps of each environment, T.

        Returns
        -------
        Rollout
            All of its steps are valid.
        """
        return self._run(policy, num_steps, whole=False)

    def collect_episodes(self, policy: Policy, longest: int) -> Rollout:
        """Begin an episode in every environment and act to its end.

        Parameters
        ----------
        policy : Policy
            Who acts.
        longest : int
            Most steps of an episode; one that is longer counts as truncated there.

        Returns
        -------
        Rollout
            One episode of each environment.
        """
        for lane in self._lanes:
            if lane.actions:
                lane.begin()
        return self._run(policy, longest, whole=True)

    def _run(self, policy: Policy, num_steps: int, *, whole: bool) -> Rollout:
        recorder = Recorder(self._lanes, num_steps)
        device = next(policy.parameters()).device.type
        done = np.zeros(len(self._lanes), np.bool_)
        step = 0
        with torch.inference_mode(), one_thread():
            while step < num_steps and not done.all():
                recorder.see(step)
                begin = time.perf_counter()
                distribution, values = policy(to_tensors(recorder.seen(step), device))
                actions = distribution.sample(self.rng)
                recorder.decide(step, actions, distribution.log_prob(actions), values)
                recorder.infer += time.perf_counter() - begin
                chosen = recorder.actions[step]
                discrete = chosen.ndim == 1
                plain = chosen.tolist() if discrete else chosen
                for number, lane in enumerate(self._lanes):
                    if done[number]:
                        continue
                    recorder.valid[step, number] = True
                    _, reward, terminated, truncated, info = lane.step(plain[number])
                    recorder.rewards[step, number] = reward
                    recorder.elapsed[step, number] = info.get("elapsed", 1.0)
                    if terminated or truncated:
                        recorder.end(step, number, lane, truncated=truncated, measure=self.measure)
                        done[number] = whole
                        lane.begin()
                step += 1
            return Rollout(**recorder.fields(step, policy, device))
