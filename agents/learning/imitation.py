"""Behavioural cloning: a policy learns to do what an expert would do, as a warm start.

The policy itself acts, so that it learns what to do where its own mistakes lead: Ross, Gordon and Bagnell, "A reduction
of imitation learning and structured prediction to no-regret online learning", AISTATS 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.learning.distributions import Distribution
from agents.learning.learner import Learner, between
from agents.learning.policy import one_thread, to_tensors
from agents.learning.rollout import Rollout
from desim.exceptions import InvalidConfiguration

__all__ = ["Expert", "clone", "imitate"]

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


@one_thread()
def clone(
    learner: Learner,
    observations: dict[str, NDArray[Any]],
    actions: NDArray[Any],
    distance: Callable[[Distribution, Tensor], Tensor],
    *,
    agrees: Callable[[Tensor, Tensor], Tensor] = torch.eq,
    epochs: int = 6,
    minibatch_size: int = 256,
    learning_rate: float = 2e-3,
) -> list[float]:
    """Train a policy on what an expert did, without acting itself.

    Parameters
    ----------
    learner : Learner
        Whose policy is trained in place; its own optimizer and its critic are not touched.
    observations : dict of str to array, shape (S, ...)
        What the expert saw.
    actions : array, shape (S, ...)
        What it did.
    distance : callable
        Returns how far a batch of distributions is from a batch of actions, shape (B,).
    agrees : callable
        Tells of a batch of most likely actions and of what the expert did which are the same, shape (B,).
    epochs : int
        How often each sample is used.
    minibatch_size : int
        Samples a step.
    learning_rate : float
        Of Adam, at the beginning; it falls to a twentieth of this.

    Returns
    -------
    list of float
        Share of the samples of each epoch for which the policy's most likely action was the expert's.

    Raises
    ------
    InvalidConfiguration
        If there are no samples.
    """
    if not len(actions):
        raise InvalidConfiguration("there is nothing to imitate: the expert never had a choice")
    policy = learner.policy
    device = next(policy.parameters()).device.type
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    size, found = len(actions), []
    total = epochs * -(-size // minibatch_size)
    step = 0
    for _ in range(epochs):
        order = learner.rng.permutation(size)
        agreed = 0
        for places in np.split(order, range(minibatch_size, size, minibatch_size)):
            for group in optimizer.param_groups:
                group["lr"] = between(learning_rate, 0.05 * learning_rate, step / total)
            shown = to_tensors({name: array[places] for name, array in observations.items()}, device)
            wanted = to_tensors({"actions": actions[places]}, device)["actions"]
            distribution, _ = policy(shown)
            agreed += int(agrees(distribution.mode().detach(), wanted).sum())
            loss = distance(distribution, wanted).mean()
            auxiliary = policy.auxiliary_loss(shown)
            if auxiliary is not None:
                loss = loss + auxiliary
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
        found.append(agreed / size)
    return found
