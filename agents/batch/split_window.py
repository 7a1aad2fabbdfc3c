"""The split-window agent: a network that chooses jobs from the head and the tail of the queue.

Source: Wang, Harwood and Rodriguez, "Deep Back-Filling: a split window technique for deep online cluster job
scheduling", HPCC 2022. Departures: impossible actions are masked unless requested otherwise; the network scores jobs by
their features with shared weights; and decisions are skipped if no job in the window fits. For the agent as published,
see :class:`~desim.agents.batch.dbf.DBFAgent`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.batch.cores_only import refuse_nodes
from desim.agents.learning.custom import check_known, custom_network
from desim.agents.learning.learned import AgentConfig, LearnedAgent
from desim.agents.learning.policy import (
    Distribution,
    MaskedCategorical,
    NumpyMLP,
    Policy,
    action_for,
    computes_as,
    initialized,
    mlp,
)
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation
from desim.problems.batch.encoders import CLUSTER_FEATURES, JOB_FEATURES, FeatureEncoder, SplitWindow

__all__ = ["SplitWindowAgent", "SplitWindowConfig", "WindowAgent", "WindowScorer", "greedy"]

Arrays = dict[str, NDArray[Any]]

NETWORKS = ("scorer",)
"""Names of the built-in networks."""


class WindowScorer(Policy):
    """Network that scores each job by its features, the mean features of the window, and a summary of the cluster.

    Waiting has a separate score from the same summary. Only jobs that fit are scored, which are few. So the cost hardly
    depends on the size of the window, and a trained network can be used with windows of any size.

    Parameters
    ----------
    rng : numpy.random.Generator
        Random generator for the initial weights.
    hidden : sequence of int
        Numbers of units of the hidden layers, in each of the three networks: jobs, waiting, value.
    masked : bool
        Whether impossible actions have probability 0. Otherwise they may be chosen, which ends the scheduling cycle.
    """

    def __init__(self, rng: np.random.Generator, *, hidden: Sequence[int] = (64, 32), masked: bool = True) -> None:
        super().__init__()
        self.masked = masked
        summary = len(CLUSTER_FEATURES) + len(JOB_FEATURES)
        self.job_score = initialized(mlp([len(JOB_FEATURES) + summary, *hidden, 1], nn.Tanh), rng, 0.01)
        self.wait_score = initialized(mlp([summary, *hidden, 1], nn.Tanh), rng, 0.01)
        last = self.wait_score[-1]
        assert isinstance(last, nn.Linear)
        nn.init.constant_(last.bias, -2.0)  # a new network rarely waits if a job fits
        self.critic = initialized(mlp([summary, *hidden, 1], nn.Tanh), rng)

    def forward(self, observations: dict[str, Tensor]) -> tuple[Distribution, Tensor]:
        """Return the distribution over M + 1 actions, and the values, shape (B,)."""
        jobs, cluster, mask = observations["jobs"], observations["cluster"], observations[ACTION_MASK]
        present = jobs[:, :, 0].sum(1, keepdim=True).clamp(min=1.0)  # empty slots do not count
        summary = torch.cat([cluster, jobs.sum(1) / present], dim=1)
        scored = mask[:, :-1].bool() if self.masked else torch.ones_like(mask[:, :-1], dtype=torch.bool)
        rows, slots = scored.nonzero(as_tuple=True)
        scores = self.job_score(torch.cat([jobs[rows, slots], summary[rows]], dim=1)).squeeze(-1)
        logits = torch.full(mask.shape, -1e9, dtype=scores.dtype, device=scores.device)
        logits = logits.index_put((rows, slots), scores)
        logits = torch.cat([logits[:, :-1], self.wait_score(summary)], dim=1)
        values = cast(Tensor, self.critic(summary)).squeeze(-1)
        return MaskedCategorical(logits, mask if self.masked else None), values


def greedy(policy: Policy) -> Callable[[Arrays], int] | None:
    """Return a fast function for the most likely action in an encoded observation; ties go to the first action.

    Parameters
    ----------
    policy : Policy
        Network; later changes of its weights have no effect.

    Returns
    -------
    callable or None
        The function; None for unknown networks and for subclasses that change the computation.
    """
    if not (isinstance(policy, WindowScorer) and computes_as(policy, WindowScorer)):
        return None
    return _of_scorer(policy) if all(map(NumpyMLP.can_copy, (policy.job_score, policy.wait_score))) else None


def _of_scorer(policy: WindowScorer) -> Callable[[Arrays], int]:
    score, wait = NumpyMLP(policy.job_score), NumpyMLP(policy.wait_score)
    first, bias = score.layers[0]
    width = len(first) - len(wait.layers[0][0])
    by_job, by_summary = first[:width], first[width:]

    def choose(observation: Arrays) -> int:
        jobs, mask = observation["jobs"], observation[ACTION_MASK]
        present = max(float(jobs[:, 0].sum()), 1.0)
        summary = np.concatenate([observation["cluster"], jobs.sum(axis=0) / np.float32(present)])
        slots = mask[:-1].nonzero()[0] if policy.masked else np.arange(len(jobs))
        waiting = float(wait(summary)[0])
        if not len(slots):
            return len(jobs)
        scores = score.after_first(jobs[slots] @ by_job + (summary @ by_summary + bias))[:, 0]
        best = int(scores.argmax())
        may_wait = mask[-1] or not policy.masked
        return len(jobs) if may_wait and scores[best] < waiting else int(slots[best])

    return choose


@dataclass(frozen=True)
class SplitWindowConfig(AgentConfig[Policy]):
    """Window, observation and network of the split-window agent.

    Parameters
    ----------
    head : int
        Number of slots of the window at the head of the queue.
    tail : int
        Number of slots of the window at the tail of the queue.
    network : str
        Name of the network: "scorer", which scores every job by its features with the same weights; or MODULE:NAME, a
        custom network over the features.
    hidden : tuple of int
        Numbers of units of the hidden layers; empty for 64 32.
    masked : bool
        Whether impossible actions have probability 0. If not, they may be chosen, which ends the scheduling cycle.
    num_cores : int
        Number of cores of the cluster in training; with the scorer, an agent can run on clusters of any size.
    reserve_after : float, optional
        Waiting time in seconds after which the oldest job gets a reservation; starts that would delay it are impossible
        then. Without it, there is no reservation.
    """

    agent_kind: ClassVar[str] = "split-window"

    head: int = 16
    tail: int = 16
    network: str = "scorer"
    hidden: tuple[int, ...] = ()
    masked: bool = True
    num_cores: int = 256
    reserve_after: float | None = None

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        check_known("network", self.network, NETWORKS)
        self.encoder()

    def encoder(self) -> FeatureEncoder:
        """Return the encoder of the observation."""
        return FeatureEncoder(SplitWindow(self.head, self.tail), reserve_after=self.reserve_after_or_never)

    @property
    def reserve_after_or_never(self) -> float:
        """Waiting time in seconds after which the oldest job gets a reservation; infinity for never."""
        return math.inf if self.reserve_after is None else self.reserve_after

    def policy(self, rng: np.random.Generator) -> Policy:
        """Return a new network (actor and critic) with weights from a random generator."""
        if self.network == "scorer":
            return WindowScorer(rng, hidden=self.hidden or (64, 32), masked=self.masked)
        return custom_network(self.network, self.encoder(), rng)

    @classmethod
    def load(cls, stem: str | Path, changes: Mapping[str, Any] | None = None) -> tuple[Self, Policy]:
        """Return a configuration and its network from files; with the scorer, the window may be changed."""
        config, policy = super().load(stem)
        if changes and config.network != "scorer":
            raise InvalidConfiguration(f"window: got a change, expected that of {stem}; only 'scorer' takes any window")
        return replace(config, **(changes or {})), policy


class WindowAgent(LearnedAgent):
    """Base class of agents that choose slots of a split window until they choose none.

    Parameters
    ----------
    policy : Policy
        Network; later changes of its weights may have no effect.
    config : AgentConfig
        Window, observation and network of the agent, with a method ``encoder``.
    name : str, optional
        Name for records and tables. Default: the kind of agent.
    """

    def __init__(self, policy: Policy, config: Any, *, name: str | None = None) -> None:
        self.policy = policy.eval()
        self.config = config
        self.encoder = config.encoder()
        self.name = self.config_type.agent_kind if name is None else name

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a run; raise InvalidConfiguration if the cluster has nodes."""
        refuse_nodes(simulation_info, self.name, "backfilling-sjf")

    def act(self, observation: BatchObservation) -> int | None:
        """Return the job in the chosen slot, or None to wait; it is not asked if no choice could start a job."""
        if self.encoder.is_forced(observation):
            return None
        job: int | None = self.encoder.decode(observation, self.chosen(self.encoder.encode(observation)))[0]
        return job

    def chosen(self, encoded: Arrays) -> int:
        """Return the action for an encoded observation."""
        raise NotImplementedError


class SplitWindowAgent(WindowAgent):
    """Agent that starts the jobs that a network chooses from a split window, until it chooses to wait.

    Parameters
    ----------
    policy : Policy
        Network; later changes of its weights may have no effect.
    config : SplitWindowConfig
        Window, observation and network of the agent.
    name : str, optional
        Name for records and tables. Default: ``"split-window"``.
    """

    config_type = SplitWindowConfig

    def __init__(self, policy: Policy, config: SplitWindowConfig, *, name: str | None = None) -> None:
        super().__init__(policy, config, name=name)
        self._choose = greedy(self.policy)

    def chosen(self, encoded: Arrays) -> int:
        """Return the most likely action."""
        return int(action_for(self.policy, encoded)) if self._choose is None else self._choose(encoded)
