"""Synchronous advantage actor-critic: one step down the gradient of each rollout.

Source: Mnih et al., "Asynchronous methods for deep reinforcement learning", ICML 2016, in its synchronous form.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from desim.agents.learning.learner import Discounting, Learner, between, explained
from desim.agents.learning.policy import Policy
from desim.agents.learning.rollout import Rollout

__all__ = ["ActorCritic", "ActorCriticConfig"]


@dataclass(frozen=True)
class ActorCriticConfig:
    """Settings of the synchronous actor-critic.

    Parameters
    ----------
    learning_rate, final_learning_rate : float
        Of Adam, at the beginning and at the end of the training.
    value_weight : float
        Of the critic's loss.
    entropy, final_entropy : float
        Weight of the entropy at the beginning and at the end.
    max_grad_norm : float
        Longer gradients are cut.
    normalize_advantages, normalize_values : bool
        Let advantages of a rollout, and the values that the critic learns, have mean 0 and deviation 1.
    discounting : Discounting
        How much the future counts.
    group_size : int
        Neighbouring environments with the same episodes whose mean advantage is taken off; 1 does without.
    """

    learning_rate: float = 7e-4
    final_learning_rate: float = 7e-4
    value_weight: float = 0.5
    entropy: float = 0.01
    final_entropy: float = 0.0
    max_grad_norm: float = 0.5
    normalize_advantages: bool = True
    normalize_values: bool = True
    discounting: Discounting = field(default_factory=Discounting)
    group_size: int = 1


class ActorCritic(Learner):
    """The algorithm.

    Parameters
    ----------
    policy : Policy
        Is trained in place.
    config : ActorCriticConfig
        Settings.
    rng : numpy.random.Generator
        Not used; every algorithm has one.
    """

    def __init__(self, policy: Policy, config: ActorCriticConfig, rng: np.random.Generator) -> None:
        super().__init__(
            policy,
            config.discounting,
            config.learning_rate,
            rng,
            normalize_values=config.normalize_values,
            max_grad_norm=config.max_grad_norm,
            group_size=config.group_size,
        )
        self.config = config

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Learn from a rollout, once."""
        config = self.config
        self.set_learning_rate(between(config.learning_rate, config.final_learning_rate, progress))
        samples = self.samples(rollout, *self.estimate(rollout))
        weights = samples.advantages
        if config.normalize_advantages and len(weights) > 1:
            weights = (weights - weights.mean()) / (weights.std() + 1e-8)
        distribution, values = self.policy(samples.observations)
        policy_loss = -(distribution.log_prob(samples.actions) * weights).mean()
        value_loss = (values - samples.targets).square().mean()
        entropy = distribution.entropy().mean()
        bonus = between(config.entropy, config.final_entropy, progress) * entropy
        gradient = self.descend(policy_loss + config.value_weight * value_loss - bonus)
        self.policy.observe(samples.observations)
        return {
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": entropy.item(),
            "gradient": gradient,
        } | explained(samples, rollout)
