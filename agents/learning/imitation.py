"""Behavioural cloning: a policy learns to do what an expert would do, as a warm start.

The policy itself acts, so that it learns what to do where its own mistakes lead: Ross, Gordon and Bagnell, "A reduction
of imitation learning and structured prediction to no-regret online learning", AISTATS 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray

from agents.learning.learner import Learner, between
from agents.learning.policy import one_thread, to_tensors
from agents.learning.rollout import Rollout

__all__ = ["Expert", "imitate"]

Expert = Callable[[dict[str, NDArray[Any]]], NDArray[Any]]
"""Returns the action for each of a batch of encoded observations."""


@one_thread()  # sums of gradients from several threads would not be the same again
def imitate(
    learner: Learner,
    collect: Callable[[], Rollout],
    expert: Expert,
    *,
    num_rollouts: int,
    epochs: int = 4,
    minibatch_size: int = 1024,
    learning_rate: float = 2e-3,
) -> list[float]:
    """Train a policy to act as an expert would, and its critic on what it earns meanwhile.

    Parameters
    ----------
    learner : Learner
        Whose policy is trained in place; its own optimizer is not touched.
    collect : callable
        Returns a rollout of the policy.
    expert : callable
        What should have been done.
    num_rollouts : int
        How many rollouts to learn from.
    epochs : int
        How often each is used.
    minibatch_size : int
        Samples a step.
    learning_rate : float
        Of Adam, at the beginning; it falls to a tenth of this.

    Returns
    -------
    list of float
        Share of the decisions of each rollout for which the expert's action was the policy's most likely one.
    """
    policy = learner.policy
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    agreements = []
    for number in range(num_rollouts):
        rollout = collect()
        for group in optimizer.param_groups:
            group["lr"] = between(learning_rate, 0.1 * learning_rate, number / num_rollouts)
        samples = learner.samples(rollout, *learner.estimate(rollout))
        shown = {name: array[rollout.valid] for name, array in rollout.observations.items()}
        wanted = to_tensors({"actions": expert(shown)}, samples.targets.device.type)["actions"]
        agreed = 0
        for epoch in range(epochs):
            order = torch.from_numpy(learner.rng.permutation(len(wanted))).to(wanted.device)
            for places in torch.split(order, minibatch_size):
                part = samples.part(places)
                distribution, values = policy(part.observations)
                if epoch == 0:
                    agreed += int((distribution.mode() == wanted[places]).sum())
                loss = -distribution.log_prob(wanted[places]).mean() + 0.5 * (values - part.targets).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        policy.observe(samples.observations)
        agreements.append(agreed / len(wanted))
    return agreements
