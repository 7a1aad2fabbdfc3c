"""Proximal policy optimization with a clipped objective.

Source: Schulman, Wolski, Dhariwal, Radford and Klimov, "Proximal policy optimization algorithms", 2017
(arXiv:1707.06347).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from desim.agents.learning.learner import Discounting, Learner, Samples, between, explained
from desim.agents.learning.policy import Policy
from desim.agents.learning.rollout import Rollout
from desim.exceptions import InvalidConfiguration

__all__ = ["PPO", "PPOConfig"]


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO.

    Parameters
    ----------
    learning_rate, final_learning_rate : float
        Of Adam, at the beginning and at the end of the training.
    clip : float
        How far the ratio of probabilities may go from 1.
    epochs : int
        How often each sample is used.
    minibatch_size : int
        Samples a step of the optimizer.
    value_weight : float
        Of the critic's loss.
    entropy, final_entropy : float
        Weight of the entropy at the beginning and at the end.
    max_grad_norm : float
        Longer gradients are cut.
    target_kl : float or None
        An update ends when the policy has moved further than 1.5 times this, in nats; never if None.
    normalize_values : bool
        Let the critic learn on a normalized scale.
    discounting : Discounting
        How much the future counts.
    group_size : int
        Neighbouring environments with the same episodes whose mean advantage is taken off; 1 does without.
    """

    learning_rate: float = 3e-4
    final_learning_rate: float = 3e-4
    clip: float = 0.2
    epochs: int = 4
    minibatch_size: int = 1024
    value_weight: float = 0.5
    entropy: float = 0.01
    final_entropy: float = 0.0
    max_grad_norm: float = 0.5
    target_kl: float | None = 0.02
    normalize_values: bool = True
    discounting: Discounting = field(default_factory=Discounting)
    group_size: int = 1

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if not self.clip > 0 or self.epochs < 1 or self.minibatch_size < 1:
            given = f"clip {self.clip!r}, epochs {self.epochs!r}, minibatch_size {self.minibatch_size!r}"
            raise InvalidConfiguration(f"{given}: want values above 0")
        if not (self.entropy >= 0 and self.final_entropy >= 0 and self.final_learning_rate >= 0):
            given = (
                f"entropy {self.entropy!r} to {self.final_entropy!r}, final_learning_rate {self.final_learning_rate!r}"
            )
            raise InvalidConfiguration(f"{given}: want values of at least 0")


class PPO(Learner):
    """The algorithm.

    Parameters
    ----------
    policy : Policy
        Is trained in place.
    config : PPOConfig
        Settings.
    rng : numpy.random.Generator
        For the order of samples.
    """

    def __init__(self, policy: Policy, config: PPOConfig, rng: np.random.Generator) -> None:
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
        """Learn from a rollout, several times over."""
        config = self.config
        self.set_learning_rate(between(config.learning_rate, config.final_learning_rate, progress))
        entropy_weight = between(config.entropy, config.final_entropy, progress)
        samples = self.samples(rollout, *self.estimate(rollout))
        size = len(samples.targets)
        totals: dict[str, float] = {}
        steps, divergence = 0, 0.0
        for _ in range(config.epochs):
            order = torch.from_numpy(self.rng.permutation(size)).to(samples.targets.device)
            divergences = []
            for places in torch.split(order, config.minibatch_size):
                if len(places) < min(size, config.minibatch_size) // 2:
                    continue  # a small rest gives a noisy step
                loss, figures = self._loss(samples.part(places), entropy_weight)
                divergences.append(figures["kl"])
                if config.target_kl is not None and figures["kl"] > 1.5 * config.target_kl and steps:
                    break
                figures["gradient"] = self.descend(loss)
                steps += 1
                for name, value in figures.items():
                    totals[name] = totals.get(name, 0.0) + value
            divergence = divergences[-1]
            if config.target_kl is not None and divergence > 1.5 * config.target_kl:
                break
        self.policy.observe(samples.observations)
        means = {name: total / max(steps, 1) for name, total in totals.items()}
        return means | {"kl": divergence, "optimizer_steps": float(steps)} | explained(samples, rollout)

    def _loss(self, part: Samples, entropy_weight: float) -> tuple[Tensor, dict[str, float]]:
        config = self.config
        distribution, values = self.policy(part.observations)
        log_ratio = distribution.log_prob(part.actions) - part.log_probs
        ratio = log_ratio.exp()
        scaled = part.advantages
        if len(scaled) > 1:  # one alone has no deviation
            scaled = (scaled - scaled.mean()) / (scaled.std() + 1e-8)
        clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
        policy_loss = -torch.minimum(scaled * ratio, scaled * clipped).mean()
        value_loss = (values - part.targets).square().mean()
        entropy = distribution.entropy().mean()
        loss = policy_loss + config.value_weight * value_loss - entropy_weight * entropy
        auxiliary = self.policy.auxiliary_loss(part.observations)
        if auxiliary is not None:
            loss = loss + auxiliary
        with torch.no_grad():
            figures = {
                "policy_loss": policy_loss.item(),
                "value_loss": value_loss.item(),
                "entropy": entropy.item(),
                "kl": ((ratio - 1) - log_ratio).mean().item(),
                "clipped": ((ratio - 1).abs() > config.clip).float().mean().item(),
            }
            if auxiliary is not None:
                figures["auxiliary_loss"] = auxiliary.item()
        return loss, figures
