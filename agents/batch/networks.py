"""Networks of the split-window agent, and what they choose in NumPy, for decisions one at a time.

:class:`WindowScorer` scores every job in the window with the same weights; the network of the DBF paper is a plain
:class:`desim.agents.learning.policy.MLPPolicy` over the flat observation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.learning.distributions import Distribution, MaskedCategorical
from desim.agents.learning.numpy_mlp import NumpyMLP
from desim.agents.learning.policy import MLPPolicy, Policy, initialized, mlp
from desim.envs import ACTION_MASK
from desim.problems.batch.encoders import CLUSTER_FEATURES, JOB_FEATURES

__all__ = ["WindowScorer", "greedy"]

Arrays = dict[str, NDArray[Any]]


class WindowScorer(Policy):
    """Scores each job from its features, the mean of the window's, and a summary of the cluster.

    Waiting has a score of its own, from the same summary. Only jobs that fit are scored, which are few, so the cost
    hardly depends on the size of the window, and a trained network serves windows of all sizes.

    Parameters
    ----------
    rng : numpy.random.Generator
        For the weights.
    hidden : sequence of int
        Units of the hidden layers of each of the three networks: jobs, waiting, value.
    masked : bool
        Whether impossible actions have no probability; otherwise they may be chosen, and end the cycle.
    """

    def __init__(self, rng: np.random.Generator, *, hidden: Sequence[int] = (64, 32), masked: bool = True) -> None:
        super().__init__()
        self.masked = masked
        summary = len(CLUSTER_FEATURES) + len(JOB_FEATURES)
        self.job_score = initialized(mlp([len(JOB_FEATURES) + summary, *hidden, 1], nn.Tanh), rng, 0.01)
        self.wait_score = initialized(mlp([summary, *hidden, 1], nn.Tanh), rng, 0.01)
        last = self.wait_score[-1]
        assert isinstance(last, nn.Linear)
        nn.init.constant_(last.bias, -2.0)  # begins by starting what fits
        self.critic = initialized(mlp([summary, *hidden, 1], nn.Tanh), rng)

    def forward(self, observations: dict[str, Tensor]) -> tuple[Distribution, Tensor]:
        """Return the distribution over M + 1 actions, and the values, shape (B,)."""
        jobs, cluster, mask = observations["jobs"], observations["cluster"], observations[ACTION_MASK]
        present = jobs[:, :, 0].sum(1, keepdim=True).clamp(min=1.0)  # empty slots count for nothing
        summary = torch.cat([cluster, jobs.sum(1) / present], dim=1)
        scored = mask[:, :-1].bool() if self.masked else torch.ones_like(mask[:, :-1], dtype=torch.bool)
        rows, slots = scored.nonzero(as_tuple=True)
        scores = self.job_score(torch.cat([jobs[rows, slots], summary[rows]], dim=1)).squeeze(-1)
        logits = torch.full(mask.shape, -1e9, dtype=scores.dtype, device=scores.device)
        logits = logits.index_put((rows, slots), scores)
        logits = torch.cat([logits[:, :-1], self.wait_score(summary)], dim=1)
        values = cast(Tensor, self.critic(summary)).squeeze(-1)
        return MaskedCategorical(logits, mask if self.masked else None), values


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
