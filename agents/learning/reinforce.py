"""REINFORCE with baselines, over whole episodes.

Sources: Williams, "Simple statistical gradient-following algorithms for connectionist reinforcement learning", Machine
Learning 8, 1992; for baselines from episodes with the same input, Mao, Venkatakrishnan, Schwarzkopf and Alizadeh,
"Variance reduction for reinforcement learning in input-driven environments", ICLR 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from desim.agents.learning.baselines import group_means
from desim.agents.learning.learner import Discounting, Learner, between, explained
from desim.agents.learning.policy import Policy
from desim.agents.learning.rollout import Rollout
from desim.exceptions import InvalidConfiguration

__all__ = ["Reinforce", "ReinforceConfig"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReinforceConfig:
    """Settings of REINFORCE.

    Parameters
    ----------
    learning_rate, final_learning_rate : float
        Of Adam, at the beginning and at the end of the training.
    baseline : {"none", "mean", "value", "group"}
        What is taken off the returns: nothing; their mean; the critic's value; or, for ``group_size`` neighbouring
        environments with the same episodes, the mean of the group's returns at the same simulated time.
    group_size : int
        Environments of a group.
    discount : float
        Weight of what comes one decision, or one unit of time, later.
    time_unit : float, optional
        As in :class:`~desim.agents.learning.learner.Discounting`.
    value_weight : float
        Of the critic's loss, with the baseline "value".
    entropy, final_entropy : float
        Weight of the entropy at the beginning and at the end.
    max_grad_norm : float
        Longer gradients are cut.
    normalize_advantages : bool
        Let advantages have deviation 1.
    """

    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-3
    baseline: Literal["none", "mean", "value", "group"] = "value"
    group_size: int = 8
    discount: float = 1.0
    time_unit: float | None = None
    value_weight: float = 0.5
    entropy: float = 0.0
    final_entropy: float = 0.0
    max_grad_norm: float = 0.5
    normalize_advantages: bool = True

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if self.baseline not in ("none", "mean", "value", "group"):
            raise InvalidConfiguration(f"no baseline {self.baseline!r}; there are none, mean, value, group")
        if self.group_size < 2:
            raise InvalidConfiguration(f"group_size is {self.group_size!r}, want at least 2")


class Reinforce(Learner):
    """The algorithm.

    Parameters
    ----------
    policy : Policy
        Is trained in place.
    config : ReinforceConfig
        Settings.
    rng : numpy.random.Generator
        Not used; every algorithm has one.
    """

    def __init__(self, policy: Policy, config: ReinforceConfig, rng: np.random.Generator) -> None:
        discounting = Discounting(config.discount, 1.0, config.time_unit)
        super().__init__(policy, discounting, config.learning_rate, rng, max_grad_norm=config.max_grad_norm)
        self.config = config

    def returns(self, rollout: Rollout) -> Floats:
        """Return the discounted sum of what was earned from each step to the end, shape (T, N).

        A truncated episode counts on the critic's value of its last observation with the baseline "value", and
        ends there with the others.

        Parameters
        ----------
        rollout : Rollout
            T steps of N environments.
        """
        discounts, _ = self.discounting.weights(rollout.elapsed)
        final = np.zeros_like(rollout.rewards)
        following = np.zeros(rollout.rewards.shape[1])
        if self.config.baseline == "value":
            final = np.where(rollout.final_values != 0, self.moments.restored(rollout.final_values), 0.0)
            following = self.moments.restored(rollout.last_values).astype(np.float64)
        result = np.zeros_like(rollout.rewards)
        for step in range(len(result) - 1, -1, -1):
            following = np.where(rollout.ends[step], final[step], following)
            following = rollout.rewards[step] + discounts[step] * following
            result[step] = np.where(rollout.valid[step], following, 0.0)
        return result

    def estimate(self, rollout: Rollout) -> tuple[Floats, Floats]:
        """Return the returns less the baseline, and the returns, shape (T, N) each."""
        returns, valid = self.returns(rollout), rollout.valid
        if self.config.baseline == "value":
            return returns - self.moments.restored(rollout.values), returns
        if self.config.baseline == "mean":
            return returns - returns[valid].mean(), returns
        if self.config.baseline == "group":
            return returns - group_means(returns, rollout, self.config.group_size), returns
        return returns, returns

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Learn from whole episodes, once."""
        config = self.config
        self.set_learning_rate(between(config.learning_rate, config.final_learning_rate, progress))
        samples = self.samples(rollout, *self.estimate(rollout))
        weights = samples.advantages
        if config.normalize_advantages and len(weights) > 1:
            weights = weights / (weights.std() + 1e-8)
        distribution, values = self.policy(samples.observations)
        policy_loss = -(distribution.log_prob(samples.actions) * weights).mean()
        entropy = distribution.entropy().mean()
        loss = policy_loss - between(config.entropy, config.final_entropy, progress) * entropy
        if config.baseline == "value":
            loss = loss + config.value_weight * (values - samples.targets).square().mean()
        figures = {"policy_loss": policy_loss.item(), "entropy": entropy.item()}
        auxiliary = self.policy.auxiliary_loss(samples.observations)
        if auxiliary is not None:
            loss = loss + auxiliary
            figures["auxiliary_loss"] = auxiliary.item()
        figures["gradient"] = self.descend(loss)
        self.policy.observe(samples.observations)
        return figures | explained(samples, rollout)
