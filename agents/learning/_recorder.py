"""The arrays of a rollout while it is made."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from desim.agents.learning._lane import Lane
from desim.agents.learning.policy import Policy, to_tensors

__all__ = ["PER_STEP", "Recorder"]

Arrays = dict[str, NDArray[Any]]
PER_STEP = ("actions", "log_probs", "values", "rewards", "elapsed", "ends", "final_values", "valid")
"""What a rollout holds for each step beside observations."""


class Recorder:
    """The arrays of a rollout while it is made."""

    def __init__(self, lanes: list[Lane], num_steps: int) -> None:
        self.lanes = lanes
        self.begin = time.perf_counter()
        self.infer = 0.0
        shape = (num_steps, len(lanes))
        first = _as_dict(lanes[0].observation)
        self.observations = {
            name: np.zeros((num_steps + 1, len(lanes), *np.shape(array)), _dtype(array))
            for name, array in first.items()
        }
        space = lanes[0].gym_env.action_space
        self.actions = np.zeros((*shape, *(space.shape or ())), space.dtype or np.int64)
        self.log_probs, self.values, self.final_values = (np.zeros(shape, np.float32) for _ in range(3))
        self.rewards, self.elapsed = np.zeros(shape), np.zeros(shape)
        self.ends, self.valid = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        self.episodes: list[dict[str, float]] = []
        self.truncated: list[tuple[int, int, dict[str, Any]]] = []

    def see(self, step: int) -> None:
        """Note what every environment shows."""
        for number, lane in enumerate(self.lanes):
            for name, array in _as_dict(lane.observation).items():
                self.observations[name][step, number] = array

    def seen(self, step: int) -> Arrays:
        """Return what all environments show at a step."""
        return {name: array[step] for name, array in self.observations.items()}

    def decide(self, step: int, actions: torch.Tensor, log_probs: torch.Tensor, values: torch.Tensor) -> None:
        """Note what is done."""
        self.actions[step] = actions.cpu().numpy()
        self.log_probs[step] = log_probs.cpu().numpy()
        self.values[step] = values.cpu().numpy()

    def end(self, step: int, number: int, lane: Lane, *, truncated: bool, measure: Any) -> None:
        """Note the end of an episode."""
        self.ends[step, number] = True
        if truncated:  # copied, since an environment may write the next observation into the same array
            seen = {name: np.array(array) for name, array in _as_dict(lane.observation).items()}
            self.truncated.append((step, number, seen))
        measured = {} if measure is None else measure(lane.gym_env)
        self.episodes.append({"return": lane.earned, "length": float(len(lane.actions)), **measured})

    def fields(self, length: int, policy: Policy, device: str) -> dict[str, Any]:
        """Return all that was noted in a number of steps, as the fields of a rollout."""
        self.see(length)
        begin = time.perf_counter()
        _, last = policy(to_tensors(self.seen(length), device))
        if self.truncated:
            steps, numbers, shown = zip(*self.truncated, strict=True)
            batch = {
                name: np.stack([seen[name] for seen in shown]).astype(array.dtype, copy=False)
                for name, array in self.observations.items()
            }
            self.final_values[list(steps), list(numbers)] = policy(to_tensors(batch, device))[1].cpu().numpy()
        self.infer += time.perf_counter() - begin
        total = time.perf_counter() - self.begin
        return dict(
            observations={name: array[:length] for name, array in self.observations.items()},
            last_values=last.cpu().numpy(),
            episodes=self.episodes,
            seconds={"simulate": total - self.infer, "infer": self.infer},
            **{name: getattr(self, name)[:length] for name in PER_STEP},
        )


def _as_dict(observation: Any) -> dict[str, Any]:
    return observation if isinstance(observation, dict) else {"observation": observation}


def _dtype(array: Any) -> np.dtype[Any]:
    dtype = np.asarray(array).dtype
    return np.dtype(np.float32) if dtype == np.float64 else dtype
