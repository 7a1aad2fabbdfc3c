"""LACHESIS as published and Decima as released by its authors: networks and agents.

Sources: Luo et al., "Learning to optimize DAG scheduling in heterogeneous environment" (LACHESIS), sections IV and V-A,
equations (7) to (11); Mao et al., "Learning scheduling algorithms for data processing clusters" (Decima), SIGCOMM 2019,
and its public program. A node is assigned by DEFT as soon as all its parents have finished. Settings here stand for
whatever the papers do not state; ``experiments/lachesis/register.toml`` lists these gaps and what we tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import torch
from numpy.random import Generator
from torch import Tensor, nn

from desim.agents.dag.allocation import DEFT
from desim.agents.dag.graph_agent import CustomGraphAgent
from desim.agents.dag.graph_policy import Activation, levels_of
from desim.agents.learning.learned import AgentConfig, LearnedAgent
from desim.agents.learning.policy import Distribution, MaskedCategorical, Observations, Policy, initialized, mlp
from desim.agents.learning.q_actor_critic import QPolicy
from desim.checks import check_int
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.dag.graph_encoder import (
    FIXED_FEATURES,
    JOB_FEATURES,
    SYSTEM_GRAPH_FEATURES,
    GraphEncoder,
    GraphSizes,
)

__all__ = ["DecimaAgent", "DecimaConfig", "DecimaPolicy", "LachesisAgent", "LachesisConfig", "LachesisPolicy"]

NODE_INPUTS = [
    FIXED_FEATURES.index(n) for n in ("run_time", "incoming_time", "outgoing_time", "upward_rank", "downward_rank")
]
JOB_INPUTS = [JOB_FEATURES.index(name) for name in ("unassigned_nodes", "unassigned_time")]
EXECUTOR_INPUTS = [SYSTEM_GRAPH_FEATURES.index(n) for n in ("idle_executors", "time_to_next_idle", "mean_backlog")]
"""LACHESIS's input features of nodes, of their jobs, and of the executors, in the order of the text; times and counts
are log-scaled."""

RUNNING = JOB_FEATURES.index("running_nodes")
IDLE = SYSTEM_GRAPH_FEATURES.index("idle_executors")
RUN_TIME = FIXED_FEATURES.index("run_time")

EXECUTORS, TASKS, SECONDS = 20.0, 200.0, 100.0
"""Divisors of numbers of executors, numbers of tasks and times (in seconds) in Decima's program."""

PAPER_EXECUTORS = 50
"""Number of executors in both papers; idle executors are counted relative to it."""


class _Flat(NamedTuple):
    """The jobs of a batch of observations as one graph.

    Attributes
    ----------
    nodes, jobs : Tensor, shape (n, F) and (j, G)
        Features of nodes and of jobs.
    left : Tensor of bool, shape (n,)
        Whether a node is unassigned.
    job_of_node, row_of_job : Tensor of int, shape (n,) and (j,)
        Job of each node, and observation of each job.
    edges : Tensor of int, shape (e, 2)
        Pairs (parent, child).
    edge_times : Tensor, shape (e, 1)
        Features of the transfers.
    rows, slots : Tensor of int, shape (c,)
        Observation and action index of each candidate.
    candidates : Tensor of int, shape (c,)
        Node of each candidate.
    """

    nodes: Tensor
    jobs: Tensor
    left: Tensor
    job_of_node: Tensor
    row_of_job: Tensor
    edges: Tensor
    edge_times: Tensor
    rows: Tensor
    slots: Tensor
    candidates: Tensor


def _flat(observations: Observations) -> _Flat:
    """Return all jobs of a batch, and all their nodes, in one sequence."""
    present = observations["present"].bool()
    has_nodes = present.any(-1)
    rows, _ = has_nodes.nonzero(as_tuple=True)
    job_at = torch.cumsum(has_nodes.flatten(), 0).view(has_nodes.shape) - 1
    node_at = torch.cumsum(present.flatten(), 0).view(present.shape) - 1
    edges = observations["edges"]
    there = edges[..., 0] >= 0
    batch, places, _ = there.nonzero(as_tuple=True)
    ends = edges[there].long()
    flat_edges = torch.stack([node_at[batch, places, ends[:, 0]], node_at[batch, places, ends[:, 1]]], dim=1)
    at = observations["candidate_nodes"].long()
    of, slots = (at[..., 0] >= 0).nonzero(as_tuple=True)
    shown = at[of, slots]
    return _Flat(
        observations["nodes"][present],
        observations["jobs"][has_nodes],
        observations["unassigned"][present].bool(),
        job_at[..., None].expand(present.shape)[present],
        rows,
        flat_edges,
        observations["edge_times"][there][:, None],
        of,
        slots,
        node_at[of, shown[:, 0], shown[:, 1]],
    )


def _summed(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Return sums of rows with the same index, shape (count, D)."""
    return values.new_zeros(count, values.shape[1]).index_add(0, index, values)


class _Lachesis(nn.Module):
    """Network that scores ready nodes: layers of equation (7), sums over jobs and over all jobs, and a score network.

    Parameters
    ----------
    config : LachesisConfig
        Sizes of the network.
    rng : numpy.random.Generator
        Random generator for the initial weights.
    last : float
        Scale of the initial weights of the last layer.
    """

    def __init__(self, config: LachesisConfig, rng: Generator, last: float) -> None:
        super().__init__()
        self.layers, self.sees_executors = config.layers, config.executor_state
        width = len(JOB_INPUTS) + len(NODE_INPUTS)
        sizes = [width, config.function_units, width]
        self.g = initialized(mlp(sizes, Activation), rng)
        self.h = initialized(mlp([1, *sizes[1:]], Activation), rng)
        self.of_job = initialized(mlp(sizes, Activation), rng)
        self.of_all = initialized(mlp(sizes, Activation), rng)
        inputs = 3 * width + len(EXECUTOR_INPUTS) * config.executor_state
        self.score = initialized(mlp([inputs, *config.hidden, 1], Activation), rng, last)

    def forward(self, observations: Observations) -> Tensor:
        """Return the scores of all candidates, shape (B, C); empty places have score 0."""
        flat = _flat(observations)
        jobs, rows = len(flat.row_of_job), len(observations["present"])
        of_jobs = flat.jobs[:, JOB_INPUTS].index_select(0, flat.job_of_node)
        known = torch.cat([of_jobs, flat.nodes[:, NODE_INPUTS]], dim=1)
        parents, children = flat.edges.T
        constant = self.h(_summed(flat.edge_times, parents, len(known))) + known
        embedded = known
        for _ in range(self.layers):
            embedded = self.g(_summed(embedded.index_select(0, children), parents, len(known))) + constant
        summary = self.of_job(_summed(embedded, flat.job_of_node, jobs))
        whole_of = self.of_all(_summed(summary, flat.row_of_job, rows))
        if self.sees_executors:
            whole_of = torch.cat([whole_of, observations["system"][:, EXECUTOR_INPUTS]], dim=1)
        job = flat.job_of_node[flat.candidates]
        seen = [embedded.index_select(0, flat.candidates), summary.index_select(0, job)]
        seen.append(whole_of.index_select(0, flat.rows))
        scores = known.new_zeros(observations["candidates"].shape[:2])
        return scores.index_put((flat.rows, flat.slots), self.score(torch.cat(seen, dim=1)).squeeze(-1))


class LachesisPolicy(QPolicy):
    """Actor and critic of LACHESIS, with their target networks; both score each ready node.

    Parameters
    ----------
    config : LachesisConfig
        Sizes of the networks.
    rng : numpy.random.Generator
        Random generator for the initial weights.
    """

    def __init__(self, config: LachesisConfig, rng: Generator) -> None:
        super().__init__(_Lachesis(config, rng, 0.1), _Lachesis(config, rng, 0.01))


class RelativeCategorical(MaskedCategorical):
    """Categorical distribution with relative entropy: a share of its maximum, as in Decima's program."""

    def entropy(self) -> Tensor:
        """Return the entropies divided by the logarithm of the number of possible actions, shape (B,)."""
        assert self.mask is not None
        return super().entropy() / self.mask.sum(-1).clamp(min=2).to(self.log_probabilities).log()


class DecimaPolicy(Policy):
    """Decima's network without its choice of a number of executors, which is unnecessary with DEFT.

    Parameters
    ----------
    config : DecimaConfig
        Sizes of the network.
    rng : numpy.random.Generator
        Random generator for the initial weights.
    """

    def __init__(self, config: DecimaConfig, rng: Generator) -> None:
        super().__init__()
        self.depth = config.depth
        node, inner, width = 4, list(config.inner), config.width
        self.prepare = initialized(mlp([node, *inner, width], Activation), rng)
        self.message = initialized(mlp([width, *inner, width], Activation), rng)
        self.gather = initialized(mlp([width, *inner, width], Activation), rng)
        self.of_node = initialized(mlp([node + width, *inner, width], Activation), rng)
        self.of_job = initialized(mlp([width, *inner, width], Activation), rng)
        self.score = initialized(mlp([node + 3 * width, *config.hidden, 1], Activation), rng, 0.1)

    def forward(self, observations: Observations) -> tuple[Distribution, Tensor]:
        """Return the distribution over the actions; all values are 0, because REINFORCE does not use them."""
        flat = _flat(observations)
        jobs, rows = len(flat.row_of_job), len(observations["present"])
        free = observations["system"][:, IDLE] * (PAPER_EXECUTORS / EXECUTORS)
        of_jobs = torch.stack([_number(flat.jobs[:, RUNNING]) / EXECUTORS, free[flat.row_of_job]], dim=1)
        left = flat.left.to(of_jobs.dtype)
        work = left * _number(flat.nodes[:, RUN_TIME]) / SECONDS
        known = torch.cat([of_jobs[flat.job_of_node], work[:, None], left[:, None] / TASKS], dim=1)
        embedded = self._embedded(known, flat.edges)
        told = self.of_node(torch.cat([known, embedded], dim=1)) * left[:, None]
        summary = _summed(told, flat.job_of_node, jobs)
        whole_of = _summed(self.of_job(summary), flat.row_of_job, rows)
        job = flat.job_of_node[flat.candidates]
        seen = [known.index_select(0, flat.candidates), embedded.index_select(0, flat.candidates)]
        seen += [summary.index_select(0, job), whole_of.index_select(0, flat.rows)]
        scores = known.new_zeros(observations["candidates"].shape[:2])
        scores = scores.index_put((flat.rows, flat.slots), self.score(torch.cat(seen, dim=1)).squeeze(-1))
        return RelativeCategorical(scores, observations[ACTION_MASK]), scores.new_zeros(rows)

    def _embedded(self, known: Tensor, edges: Tensor) -> Tensor:
        """Return the embeddings, computed from the leaves up, for at most ``depth`` levels."""
        embedded = cast(Tensor, self.prepare(known))
        levels = levels_of(edges, len(known))
        level_of_edge = levels[edges[:, 0]]
        place = torch.empty_like(levels)
        for level in range(1, min(self.depth, int(levels.max()) if len(levels) else 0) + 1):
            here = (levels == level).nonzero().squeeze(-1)
            place[here] = torch.arange(len(here), device=here.device)
            parents, children = edges[level_of_edge == level].T
            heard = _summed(self.message(embedded.index_select(0, children)), place[parents], len(here))
            new = self.gather(heard) + embedded.index_select(0, here)
            embedded = embedded.index_copy(0, here, new)
        return embedded


def _number(compressed: Tensor) -> Tensor:
    """Return the inverse of :func:`desim.envs.base.log_scaled`."""
    return torch.expm1(4.0 * compressed)


@dataclass(frozen=True)
class _Printed(AgentConfig[Policy]):
    """Common part of both configurations: nodes are assigned by DEFT as soon as they are ready."""

    hidden: tuple[int, ...] = (32, 16, 8)

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        if not self.hidden or min(self.hidden) < 1:
            raise InvalidConfiguration(f"hidden: got {self.hidden!r}, expected integers >= 1")

    def encoder(self, sizes: GraphSizes | None = None) -> GraphEncoder:
        """Return the encoder of the observation."""
        return GraphEncoder(DEFT().allocate, only_idle=False, sizes=sizes)


@dataclass(frozen=True)
class LachesisConfig(_Printed):
    """Networks of LACHESIS.

    Parameters
    ----------
    hidden : tuple of int
        Numbers of units of the hidden layers that score nodes, as in section V-A.
    layers : int
        Number of layers of the graph network, which share their weights.
    function_units : int
        Number of units of the hidden layer of g, h and the summary functions, which the paper does not state.
    executor_state : bool
        Whether the inputs include the number of idle executors, the time until the next one is idle, and the assigned
        work. Figure 4 of the paper has executors as inputs, its text does not.
    """

    agent_kind: ClassVar[str] = "lachesis"

    layers: int = 3
    function_units: int = 16
    executor_state: bool = True

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        super().__post_init__()
        check_int("layers", self.layers, least=1)
        check_int("function_units", self.function_units, least=1)

    def policy(self, rng: Generator) -> Policy:
        """Return new networks with weights from a random generator."""
        return LachesisPolicy(self, rng)


@dataclass(frozen=True)
class DecimaConfig(_Printed):
    """Network of Decima, with DEFT for its executors.

    Parameters
    ----------
    hidden : tuple of int
        Numbers of units of the hidden layers that score nodes.
    inner : tuple of int
        Numbers of units of the hidden layers of all other networks.
    width : int
        Length of an embedding and of a summary.
    depth : int
        Largest number of levels, from the leaves up, that pass messages.
    """

    agent_kind: ClassVar[str] = "decima"

    inner: tuple[int, ...] = (16, 8)
    width: int = 8
    depth: int = 8

    def policy(self, rng: Generator) -> Policy:
        """Return a new network with weights from a random generator."""
        return DecimaPolicy(self, rng)


class LachesisAgent(CustomGraphAgent, LearnedAgent):
    """LACHESIS with trained weights: assign the ready node that the actor scores highest, by DEFT."""

    config_type = LachesisConfig


class DecimaAgent(CustomGraphAgent, LearnedAgent):
    """Decima-DEFT with trained weights: assign the ready node that Decima's network scores highest, by DEFT."""

    config_type = DecimaConfig
