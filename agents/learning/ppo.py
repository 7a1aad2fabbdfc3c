"""Proximal policy optimization (PPO), from experience to an update.

1. The policy acts in many environments: :class:`~desim.agents.learning.experience.Collector` records observations s_t,
   actions a_t, log pi_old(a_t | s_t), values V(s_t) and rewards r_t.
2. :func:`advantages` computes the advantages A_t by generalized advantage estimation: how much better each action was
   than expected.
3. :meth:`PPO.loss` is the clipped objective: with rho_t = pi(a_t | s_t) / pi_old(a_t | s_t),

       L = -mean min(rho_t A_t, clip(rho_t, 1 - epsilon, 1 + epsilon) A_t) + c1 mean (V(s_t) - R_t)^2 - c2 mean H(pi).

4. :meth:`PPO.update` minimizes L over several epochs of minibatches, and stops early if the policy has moved too far.

Sources: Schulman, Wolski, Dhariwal, Radford and Klimov, "Proximal policy optimization algorithms", 2017
(arXiv:1707.06347); Schulman, Moritz, Levine, Jordan and Abbeel, "High-dimensional continuous control using generalized
advantage estimation", ICLR 2016. Discounts may differ between steps, as in semi-Markov decision processes: no discount
applies between decisions at the same instant.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from desim.agents.learning.experience import Experience
from desim.agents.learning.learner import Learner, Samples

__all__ = ["PPO", "advantages", "group_means", "normalized"]

LEAST_OF_A_THREAD = 512
"""Smallest number of samples per thread; with fewer, handing them out takes longer than the work itself."""

Floats = NDArray[np.float64]
Reals = NDArray[np.floating]


def advantages(
    experience: Experience, values: Reals, final: Reals, last: Reals, weights: tuple[Floats, Floats]
) -> Floats:
    """Return the advantage A_t of every action of N environments over T steps, shape (T, N).

    delta_t = r_t + gamma_t V(s_t+1) - V(s_t) and A_t = delta_t + gamma_t lambda_t A_t+1, up to the end of the episode.
    At the end of a truncated episode V(s_t+1) is the value of its last observation; at termination it is 0.

    Parameters
    ----------
    experience : Experience
        Experience with the rewards and the ends of episodes.
    values : array, shape (T, N)
        V(s_t), in units of reward.
    final : array, shape (T, N)
        Value of the last observation where an episode was truncated; 0 where it terminated.
    last : array, shape (N,)
        Value of the observation after the last step.
    weights : two arrays, shape (T, N)
        gamma_t and lambda_t of each step.

    Returns
    -------
    array of float, shape (T, N)
        Advantages; their sums with the values are the targets of the critic.
    """
    rewards, ends = experience.rewards, experience.ends
    gamma, lambda_ = weights
    result = np.zeros(rewards.shape)
    following = last.astype(np.float64)
    advantage = np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        following = np.where(ends[t], final[t], following)
        delta = rewards[t] + gamma[t] * following - values[t]
        result[t] = advantage = delta + np.where(ends[t], 0.0, gamma[t] * lambda_[t] * advantage)
        following = values[t]
    return result


def group_means(figures: Floats, experience: Experience) -> Floats:
    """Return the group means of a figure at the simulated time of each step, as an input-dependent baseline.

    Environments of a group face the same arrivals, so most of their variance is shared. Differences from the mean of
    the group at the same simulated time come from the actions. Figures are interpolated linearly between steps.

    Source: Mao, Venkatakrishnan, Schwarzkopf and Alizadeh, "Variance reduction for reinforcement learning in
    input-driven environments", ICLR 2019; for the time alignment, Mao et al., "Learning scheduling algorithms for data
    processing clusters", SIGCOMM 2019.

    Parameters
    ----------
    figures : array of float, shape (T, N)
        Returns or advantages.
    experience : Experience
        Whole episodes of N environments; neighbouring environments form groups that face the same input.

    Returns
    -------
    array of float, shape (T, N)
        Group means; 0 for invalid steps. After its end an episode counts as 0. If no time passes before the last
        decision of any episode of the group, as in static planning, steps are matched by their index.
    """
    size = experience.group_size
    times = np.cumsum(experience.elapsed, axis=0) - experience.elapsed
    result = np.zeros_like(figures)
    for first in range(0, figures.shape[1], size):
        members = range(first, first + size)
        lengths = [int(experience.valid[:, member].sum()) for member in members]
        if not any(times[:n, member].any() for n, member in zip(lengths, members, strict=True)):
            times[:, first : first + size] = np.arange(len(times))[:, None]
        curves = [(times[:n, member], figures[:n, member]) for n, member in zip(lengths, members, strict=True)]
        for member, (own, _) in zip(members, curves, strict=True):
            at_own_times = [np.interp(own, known, values, right=0.0) for known, values in curves]
            result[: len(own), member] = np.mean(at_own_times, axis=0)
    return result


class PPO(Learner):
    """Proximal policy optimization with a clipped objective.

    Parameters
    ----------
    policy : Policy
        Policy that is trained in place.
    config : LearningConfig
        Settings.
    rng : numpy.random.Generator
        Generator for the order of samples.
    """

    def estimate(self, experience: Experience) -> tuple[Floats, Floats]:
        """Return advantages A_t, minus the group mean if there are groups, and targets R_t = A_t + V(s_t)."""
        restored = self.moments.restored
        values, last = restored(experience.values), restored(experience.last_values)
        final = np.where(experience.final_values != 0, restored(experience.final_values), 0.0)
        found = advantages(experience, values, final, last, self.config.weights(experience.elapsed))
        targets = found + values
        if experience.group_size > 1:
            found = found - group_means(found, experience)
        return found, targets

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Update the policy in several epochs of minibatches."""
        config = self.config
        entropy_weight = self.schedule(progress)
        samples = self.samples(experience)
        size = len(samples.targets)
        far = 1.5 * config.target_kl if config.target_kl else np.inf
        totals: dict[str, float] = {}
        steps, divergence = 0, 0.0
        with ThreadPoolExecutor(max(self.threads - 1, 1)) as pool:
            for _ in range(config.epochs):
                order = torch.from_numpy(self.rng.permutation(size)).to(samples.targets.device)
                for places in torch.split(order, config.minibatch_size):
                    if len(places) < min(size, config.minibatch_size) // 2:
                        continue  # a small remainder gives a noisy step
                    figures, descend = self._look(samples.part(places), entropy_weight, pool)
                    divergence = figures["kl"]
                    if divergence > far and steps:
                        break
                    figures["gradient"] = descend()
                    steps += 1
                    for name, value in figures.items():
                        totals[name] = totals.get(name, 0.0) + value
                if divergence > far:
                    break
        self.policy.observe(samples.observations)
        means = {name: total / max(steps, 1) for name, total in totals.items()}
        further = {"optimizer_steps": float(steps), "explained_variance": samples.explained_variance}
        return means | {"kl": divergence} | further

    def _look(
        self, part: Samples, entropy_weight: float, pool: ThreadPoolExecutor
    ) -> tuple[dict[str, float], Callable[[], float]]:
        """Return figures of the loss of a minibatch, and a function that takes the gradient step.

        A large minibatch is divided between threads. Their gradients are summed in the order of the parts, so the sum
        is the same in each training with this number of threads, and equals that of the whole except for rounding.
        """
        size = len(part.targets)
        number = min(self.threads, size // LEAST_OF_A_THREAD) if self.policy.parts_add_up else 1
        if number < 2:
            loss, figures = self.loss(part, entropy_weight)
            return figures, partial(self.descend, loss)
        pieces = replace(part, advantages=normalized(part.advantages)).divided(number)
        shares = [len(piece.targets) / size for piece in pieces]
        parameters = list(self.policy.parameters())

        def gradient_of(piece: Samples, share: float) -> tuple[tuple[Tensor | None, ...], dict[str, float]]:
            torch.set_num_threads(1)  # applies to the calling thread only
            loss, figures = self._loss(piece, entropy_weight)
            return torch.autograd.grad(share * loss, parameters, allow_unused=True), figures

        others = [pool.submit(gradient_of, *one) for one in zip(pieces[1:], shares[1:], strict=True)]
        found = [gradient_of(pieces[0], shares[0]), *(other.result() for other in others)]
        gradients = zip(*(one[0] for one in found), strict=True)
        figures = {name: sum(w * one[name] for w, (_, one) in zip(shares, found, strict=True)) for name in found[0][1]}

        def descend() -> float:
            for parameter, (first, *rest) in zip(parameters, gradients, strict=True):
                parameter.grad = first if first is None else sum(rest, start=first)
            return self.step()

        return figures, descend

    def loss(self, part: Samples, entropy_weight: float) -> tuple[Tensor, dict[str, float]]:
        """Return the loss L of some samples, and its components.

        Parameters
        ----------
        part : Samples
            Minibatch.
        entropy_weight : float
            Weight c2 of the entropy.

        Returns
        -------
        Tensor and dict of str to float
            Loss to minimize, and its components by name.
        """
        return self._loss(replace(part, advantages=normalized(part.advantages)), entropy_weight)

    def _loss(self, part: Samples, entropy_weight: float) -> tuple[Tensor, dict[str, float]]:
        """Return the same as :meth:`loss`, given normalized advantages."""
        epsilon, a = self.config.clip_range, part.advantages
        distribution, values = self.policy(part.observations)
        log_ratio = distribution.log_prob(part.actions) - part.log_probs
        rho = log_ratio.exp()
        policy_loss = -torch.minimum(a * rho, a * rho.clamp(1 - epsilon, 1 + epsilon)).mean()
        value_loss = (values - part.targets).square().mean()
        entropy = distribution.entropy().mean()
        loss = policy_loss + self.config.value_coef * value_loss - entropy_weight * entropy
        auxiliary = self.policy.auxiliary_loss(part.observations)
        if auxiliary is not None:
            loss = loss + auxiliary
        with torch.no_grad():
            figures = {
                "policy_loss": policy_loss.item(),
                "value_loss": value_loss.item(),
                "entropy": entropy.item(),
                "kl": ((rho - 1) - log_ratio).mean().item(),
                "clipped": ((rho - 1).abs() > epsilon).float().mean().item(),
            }
        return loss, figures if auxiliary is None else figures | {"auxiliary_loss": auxiliary.item()}


def normalized(advantages: Tensor) -> Tensor:
    """Return advantages minus their mean, divided by their standard deviation; a single one stays unchanged."""
    if len(advantages) < 2:
        return advantages
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)
