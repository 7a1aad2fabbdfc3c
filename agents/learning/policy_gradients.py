"""Algorithms that take one gradient step per batch of experience: advantage actor-critic (A2C) and REINFORCE.

Sources: Mnih et al., "Asynchronous methods for deep reinforcement learning", ICML 2016, in its synchronous form;
Williams, "Simple statistical gradient-following algorithms for connectionist reinforcement learning", Machine Learning
8, 1992, with baselines from episodes with the same input, see :func:`~desim.agents.learning.ppo.group_means`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.learning.experience import Experience
from desim.agents.learning.learner import Learner
from desim.agents.learning.ppo import PPO, group_means

__all__ = ["ActorCritic", "Reinforce"]

Floats = NDArray[np.float64]


class ActorCritic(PPO):
    """Synchronous advantage actor-critic (A2C): PPO's advantages, one gradient step per batch of experience.

    Parameters
    ----------
    policy : Policy
        Policy that is trained in place.
    config : LearningConfig
        Settings.
    rng : numpy.random.Generator
        Unused; all algorithms are made with one.
    """

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Take one gradient step on the experience."""
        entropy_weight = self.schedule(progress)
        samples = self.samples(experience)
        weights = samples.advantages
        if len(weights) > 1:
            weights = (weights - weights.mean()) / (weights.std() + 1e-8)
        distribution, values = self.policy(samples.observations)
        policy_loss = -(distribution.log_prob(samples.actions) * weights).mean()
        value_loss = (values - samples.targets).square().mean()
        entropy = distribution.entropy().mean()
        gradient = self.descend(policy_loss + self.config.value_coef * value_loss - entropy_weight * entropy)
        self.policy.observe(samples.observations)
        return {
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": entropy.item(),
            "gradient": gradient,
            "explained_variance": samples.explained_variance,
        }


class Reinforce(Learner):
    """REINFORCE over whole episodes, with a mean return as baseline.

    With groups the baseline is the mean of the group at the same simulated time, otherwise the mean of all steps.

    Parameters
    ----------
    policy : Policy
        Policy that is trained in place; its critic learns nothing.
    config : LearningConfig
        Settings.
    rng : numpy.random.Generator
        Unused; all algorithms are made with one.
    """

    def estimate(self, experience: Experience) -> tuple[Floats, Floats]:
        """Return the discounted returns from each step on, with and without the baseline subtracted."""
        discounts, _ = self.config.weights(experience.elapsed)
        returns = np.zeros_like(experience.rewards)
        following = np.zeros(experience.rewards.shape[1])
        for step in range(len(returns) - 1, -1, -1):
            following = np.where(experience.ends[step], 0.0, following)
            following = experience.rewards[step] + discounts[step] * following
            returns[step] = np.where(experience.valid[step], following, 0.0)
        grouped = experience.group_size > 1
        return returns - (group_means(returns, experience) if grouped else returns[experience.valid].mean()), returns

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Take one gradient step on whole episodes."""
        entropy_weight = self.schedule(progress)
        samples = self.samples(experience)
        weights = samples.advantages
        if self.config.standardize and len(weights) > 1:
            weights = weights / (weights.std() + 1e-8)
        distribution, _ = self.policy(samples.observations)
        policy_loss = -(distribution.log_prob(samples.actions) * weights).mean()
        entropy = distribution.entropy().mean()
        loss = policy_loss - entropy_weight * entropy
        figures = {"policy_loss": policy_loss.item(), "entropy": entropy.item()}
        auxiliary = self.policy.auxiliary_loss(samples.observations)
        if auxiliary is not None:
            loss = loss + auxiliary
            figures["auxiliary_loss"] = auxiliary.item()
        figures["gradient"] = self.descend(loss)
        self.policy.observe(samples.observations)
        return figures | {"explained_variance": samples.explained_variance}
