"""Behavioural cloning: a policy learns to do what an expert would do, as a warm start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from desim.agents.learning.experience import Arrays, Experience
from desim.agents.learning.learner import Learner, between
from desim.agents.learning.policy import Distribution, one_thread, to_tensors
from desim.exceptions import InvalidConfiguration

__all__ = ["Expert", "clone", "imitate"]

Expert = Callable[[Arrays], NDArray[np.int64]]
"""Returns the action for each of a batch of encoded observations."""

Compare = Callable[[NDArray[np.int64]], tuple[Tensor, Tensor]]
"""Returns of some samples, by their places, the loss, and for which of them policy and expert agree."""


@one_thread()  # sums of gradients from several threads would not be the same again
def imitate(
    learner: Learner,
    collect: Callable[[], Experience],
    expert: Expert,
    *,
    rounds: int,
    epochs: int = 4,
    minibatch_size: int = 1024,
    learning_rate: float = 2e-3,
) -> list[float]:
    """Train a policy to act as an expert would, and its critic on what it earns meanwhile.

    The policy itself acts, so that it learns what to do where its own mistakes lead: Ross, Gordon and Bagnell, "A
    reduction of imitation learning and structured prediction to no-regret online learning", AISTATS 2011.

    Parameters
    ----------
    learner : Learner
        Whose policy is trained in place; its own optimizer is not touched.
    collect : callable
        Returns experience of the policy.
    expert : callable
        What should have been done.
    rounds : int
        How often experience is collected and learned from.
    epochs : int
        How often each sample is used.
    minibatch_size : int
        Samples a step.
    learning_rate : float
        Of Adam, at the beginning; it falls to a tenth of this.

    Returns
    -------
    list of float
        Share of the decisions of each round for which the expert's action was the policy's most likely one.
    """
    student = _Student(learner, minibatch_size, learning_rate)
    agreements = []
    for number in range(rounds):
        rate = between(learning_rate, 0.1 * learning_rate, number / rounds)
        agreements.append(_imitate_in(collect(), student, expert, repeat(rate), epochs))
    return agreements


def _imitate_in(
    experience: Experience, student: _Student, expert: Expert, rates: Iterator[float], epochs: int
) -> float:
    """Learn from experience what the expert would have done; return the agreement in the first epoch."""
    learner = student.learner
    samples = learner.samples(experience)
    shown = {name: array[experience.valid] for name, array in experience.observations.items()}
    device = samples.targets.device
    wanted = to_tensors({"actions": expert(shown)}, device.type)["actions"]

    def compare(rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the loss of actor and critic, and where the actor agrees."""
        places = torch.from_numpy(rows).to(device)
        part = samples.part(places)
        distribution, values = learner.policy(part.observations)
        loss = -distribution.log_prob(wanted[places]).mean() + 0.5 * (values - part.targets).square().mean()
        return loss, distribution.mode() == wanted[places]

    shares = [student.learn(len(wanted), compare, rates) for _ in range(epochs)]
    learner.policy.observe(samples.observations)
    return shares[0]


@one_thread()
def clone(
    learner: Learner,
    observations: Arrays,
    actions: NDArray[np.generic],
    distance: Callable[[Distribution, Tensor], Tensor],
    *,
    agrees: Callable[[Tensor, Tensor], Tensor] = torch.eq,
    epochs: int = 6,
    minibatch_size: int = 128,
    learning_rate: float = 1e-3,
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

    def compare(rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the loss of the actor and of what it learns beside, and where the actor agrees."""
        shown = to_tensors({name: array[rows] for name, array in observations.items()}, device)
        wanted = to_tensors({"actions": actions[rows]}, device)["actions"]
        distribution, _ = policy(shown)
        agreed = agrees(distribution.mode().detach(), wanted)
        loss = distance(distribution, wanted).mean()
        auxiliary = policy.auxiliary_loss(shown)
        return loss if auxiliary is None else loss + auxiliary, agreed

    student = _Student(learner, minibatch_size, learning_rate)
    total = epochs * -(-len(actions) // minibatch_size)
    rates = (between(learning_rate, 0.05 * learning_rate, step / total) for step in range(total))
    return [student.learn(len(actions), compare, rates) for _ in range(epochs)]


class _Student:
    """A policy with an optimizer of its own, so that the learner's is as it was when it goes on by itself."""

    def __init__(self, learner: Learner, minibatch_size: int, learning_rate: float) -> None:
        self.learner = learner
        self.minibatch_size = minibatch_size
        self.optimizer = torch.optim.Adam(learner.policy.parameters(), lr=learning_rate)

    def learn(self, size: int, compare: Compare, rates: Iterator[float]) -> float:
        """Use each sample once, in random order, a step at each rate; return the share of those that agreed."""
        order = self.learner.rng.permutation(size)
        agreed = 0
        parts = np.split(order, range(self.minibatch_size, size, self.minibatch_size))
        for rows, rate in zip(parts, rates, strict=False):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            loss, agrees = compare(rows)
            agreed += int(agrees.sum())
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        return agreed / size
