"""What the networks of the split-window agent choose, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.networks import WindowScorer
from desim.agents.learning.numpy_mlp import NumpyMLP
from desim.agents.learning.policy import MLPPolicy, Policy
from desim.envs import ACTION_MASK

__all__ = ["greedy"]

Arrays = dict[str, NDArray[Any]]


def greedy(policy: Policy) -> Callable[[Arrays], int] | None:
    """Return what finds the most likely action for an encoded observation, of equal ones the first.

    Parameters
    ----------
    policy : Policy
        Later changes of its weights have no effect.

    Returns
    -------
    callable or None
        None for networks that are not known here.
    """
    if type(policy) is WindowScorer:
        return _of_scorer(policy)
    return _of_mlp(policy) if type(policy) is MLPPolicy else None


def _of_scorer(policy: WindowScorer) -> Callable[[Arrays], int]:
    score, wait = NumpyMLP(policy.job_score), NumpyMLP(policy.wait_score)
    first, bias = score.layers[0]
    width = len(first) - len(wait.layers[0][0])
    by_job, by_summary = first[:width], first[width:]

    def choose(observation: Arrays) -> int:
        jobs, mask = observation["jobs"], observation[ACTION_MASK]
        present = max(float(jobs[:, 0].sum()), 1.0)
        summary = np.concatenate([observation["cluster"], jobs.sum(axis=0) / np.float32(present)])
        slots = mask[:-1].nonzero()[0] if policy.masked else np.arange(len(jobs))
        waiting = float(wait(summary)[0])
        if not len(slots):
            return len(jobs)
        scores = score.after_first(jobs[slots] @ by_job + (summary @ by_summary + bias))[:, 0]
        best = int(scores.argmax())
        return int(slots[best]) if scores[best] >= waiting else len(jobs)

    return choose


def _of_mlp(policy: MLPPolicy) -> Callable[[Arrays], int]:
    actor, inputs, mask = NumpyMLP(policy.actor), policy.inputs, policy.mask

    def choose(observation: Arrays) -> int:
        logits = actor(np.concatenate([observation[name].ravel() for name in inputs], dtype=np.float32))
        return int(np.where(observation[mask] > 0, logits, -np.inf).argmax() if mask else logits.argmax())

    return choose
