"""Learning algorithm of LACHESIS: an action-value critic, target networks, and two policy gradients.

Source: Luo et al., "Learning to optimize DAG scheduling in heterogeneous environment", section IV-C: equation (12) and
algorithm 1, which combines the networks of the deterministic policy gradient (Lillicrap et al., "Continuous control
with deep reinforcement learning", ICLR 2016) with the policy gradient of an actor-critic.

Differences from the paper: line 13 takes the gradient of Q with respect to an action, which does not exist for discrete
actions; we use the gradient of the expected Q under the actor's probabilities. Networks learn after an episode, not
during it. The last step of a truncated episode is dropped, since what follows it is unknown.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.learning.experience import Experience
from desim.agents.learning.learner import Learner, LearningConfig
from desim.agents.learning.policy import Distribution, MaskedCategorical, Observations, Policy, to_tensors
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration

__all__ = ["QActorCritic", "QPolicy"]

Floats = NDArray[np.float64]


FIGURES = ("value_loss", "policy_loss", "entropy", "gradient")
"""Names of the figures that an update returns."""


class QPolicy(Policy):
    """Policy with an actor and a critic that score every action, and a slowly moving target network of each.

    Parameters
    ----------
    actor, critic : torch.nn.Module
        Networks that return scores and values of all actions, shape (B, K), for a batch of observations.
    """

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        super().__init__()
        self.actor, self.critic = actor, critic
        self.target_actor = copy.deepcopy(actor).requires_grad_(False)
        self.target_critic = copy.deepcopy(critic).requires_grad_(False)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution over the actions, and 0 as values, because only learning needs them."""
        distribution = self.distribution(observations)
        return distribution, distribution.log_probabilities.new_zeros(len(distribution.log_probabilities))

    @torch.no_grad()
    def target_values(self, observations: Observations) -> Tensor:
        """Return the target critic's values of the target actor's actions, shape (B,).

        Parameters
        ----------
        observations : dict of str to Tensor
            Batch of observations.
        """
        action = MaskedCategorical(self.target_actor(observations), observations[ACTION_MASK]).mode()
        values: Tensor = self.target_critic(observations).gather(-1, action[:, None]).squeeze(-1)
        return values

    def distribution(self, observations: Observations) -> MaskedCategorical:
        """Return the actor's distribution over the actions.

        Parameters
        ----------
        observations : dict of str to Tensor
            Batch of observations.
        """
        return MaskedCategorical(self.actor(observations), observations[ACTION_MASK])

    @torch.no_grad()
    def follow(self, rate: float) -> None:
        """Move the target networks towards the networks.

        Parameters
        ----------
        rate : float
            Fraction of the distance.
        """
        for target, network in ((self.target_actor, self.actor), (self.target_critic, self.critic)):
            for old, new in zip(target.parameters(), network.parameters(), strict=True):
                old.lerp_(new, rate)


class QActorCritic(Learner):
    """Algorithm 1 of LACHESIS.

    The critic learns r + gamma Q'(s', mu'(s')), computed with the target networks. The actor follows the gradient of
    the expected Q in each minibatch (line 13), and finally that of log pi(a | s) Q(s, a) over all steps (equation 12,
    lines 15 and 19).

    Parameters
    ----------
    policy : QPolicy
        Policy that is trained in place.
    config : LearningConfig
        Settings; epochs and minibatches apply to critic and actor alike.
    rng : numpy.random.Generator
        Generator for the order of samples.

    Raises
    ------
    InvalidConfiguration
        If the policy has no action-value critic.
    """

    policy: QPolicy

    def __init__(self, policy: Policy, config: LearningConfig, rng: np.random.Generator) -> None:
        if not isinstance(policy, QPolicy):
            raise InvalidConfiguration(f"q_actor_critic: got the policy {type(policy).__name__}, expected a QPolicy")
        super().__init__(policy, config, rng)

    def estimate(self, experience: Experience) -> tuple[Floats, Floats]:
        """Return the critic's targets minus the values of their states, and the targets; NaN if unknown."""
        values = np.zeros(experience.rewards.shape)
        values[experience.valid] = self.policy.target_values(self._seen(experience)).cpu().numpy()
        following = np.where(experience.valid[1:], values[1:], np.nan)
        following = np.concatenate([following, np.full_like(values[:1], np.nan)])
        discounts, _ = self.config.weights(experience.elapsed)
        targets = experience.rewards + discounts * np.where(experience.ends, 0.0, following)
        return targets - values, targets

    def _seen(self, experience: Experience) -> Observations:
        """Return the observations of the valid steps on one axis."""
        arrays = {name: experience.in_a_row(array) for name, array in experience.observations.items()}
        return to_tensors(arrays, next(self.policy.parameters()).device)

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Learn from whole episodes."""
        entropy_weight = self.schedule(progress)
        targets = experience.in_a_row(self.estimate(experience)[1])
        known = np.flatnonzero(np.isfinite(targets))
        if not len(known):  # an episode of a single step was truncated
            return dict.fromkeys(FIGURES, np.nan)
        observations, places = self._seen(experience), torch.from_numpy(known)
        observations = {name: tensor[places.to(tensor.device)] for name, tensor in observations.items()}
        told = {"actions": experience.in_a_row(experience.actions)[known], "targets": targets[known]}
        chosen = to_tensors(told, next(self.policy.parameters()).device)
        actions, wanted = chosen["actions"].long(), chosen["targets"]
        losses, expected = [], []
        for places in self._minibatches(len(wanted)):
            part = {name: tensor.index_select(0, places) for name, tensor in observations.items()}
            values = self.policy.critic(part)
            loss = (values.gather(-1, actions[places][:, None]).squeeze(-1) - wanted[places]).square().mean()
            distribution = self.policy.distribution(part)
            mean = self._expected(distribution, values.detach())
            self.descend(loss - mean - entropy_weight * distribution.entropy().mean())
            losses.append(loss.item())
            expected.append(mean.item())
        with torch.no_grad():
            values = self.policy.critic(observations).gather(-1, actions[:, None]).squeeze(-1)
        distribution = self.policy.distribution(observations)
        gradient = self.descend(-(distribution.log_prob(actions) * values).mean())
        self.policy.follow(self.config.target_rate)
        entropy = distribution.entropy().mean().item()
        numbers = float(np.mean(losses)), -float(np.mean(expected)), entropy, gradient
        return dict(zip(FIGURES, numbers, strict=True))

    def _minibatches(self, size: int) -> Iterator[Tensor]:
        """Yield positions of samples, minibatch by minibatch; each epoch has a new random order."""
        for _ in range(self.config.epochs):
            yield from torch.split(torch.from_numpy(self.rng.permutation(size)), self.config.minibatch_size)

    @staticmethod
    def _expected(distribution: MaskedCategorical, values: Tensor) -> Tensor:
        """Return the batch mean of the expected values of actions."""
        return (distribution.log_probabilities.exp() * values).sum(-1).mean()
