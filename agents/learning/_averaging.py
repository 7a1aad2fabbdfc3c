"""Averages of the weights of many updates.

Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", SIAM Journal on Control and
Optimization 30(4), 1992; here with weights that fall exponentially into the past.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from desim.agents.learning.policy import Policy

__all__ = ["WeightAverage", "weights_of"]


def weights_of(policy: Policy) -> dict[str, Tensor]:
    """Return a copy of the weights of a policy, by name.

    Parameters
    ----------
    policy : Policy
        The policy.
    """
    return {name: tensor.detach().cpu().clone() for name, tensor in policy.state_dict().items()}


class WeightAverage:
    """The average.

    Parameters
    ----------
    share : float
        What an update counts less for each one that follows; with 0 only the last one counts.

    Attributes
    ----------
    weights : dict of str to Tensor
        The average by name; empty before the first update, and with a share of 0.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.weights: dict[str, Tensor] = {}

    def take(self, policy: Policy) -> None:
        """Let the weights after an update count.

        Parameters
        ----------
        policy : Policy
            Which has just learned; the first one is the average.
        """
        if not self.share:
            return
        now, share = weights_of(policy), self.share
        before = self.weights or now
        self.weights = {name: share * before[name] + (1.0 - share) * tensor for name, tensor in now.items()}

    @contextmanager
    def lent_to(self, policy: Policy) -> Iterator[None]:
        """Let a policy have the averaged weights for the time of a context.

        Parameters
        ----------
        policy : Policy
            It has its own again behind it.

        Yields
        ------
        None
            If there is no average, the policy keeps its own.
        """
        if not self.weights:
            yield
            return
        own = weights_of(policy)
        policy.load_state_dict(self.weights)
        try:
            yield
        finally:
            policy.load_state_dict(own)
