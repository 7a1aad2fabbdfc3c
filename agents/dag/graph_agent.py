"""desim's graph agents: a graph network selects a node, and DEFT allocates it.

They are based on LACHESIS (Luo et al., "Learning to optimize DAG scheduling in heterogeneous environment", section IV);
for LACHESIS as published, see :mod:`desim.agents.dag.printed`. In the paper's mode, a node is bound to an executor as
soon as it is ready. In a second mode, nodes wait until an executor is idle, and the network may wait for a better one.
A third mode plans whole batches, with insertion.

The agent evaluates the network in NumPy, because the overhead of torch dominates calls of a few microseconds. Values of
a node, including its share of the first scoring layer, are computed once when its job arrives. Values of a job are
updated when one of its nodes is assigned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag.allocation import DEFT, Allocation, InsertionDEFT
from desim.agents.dag.graph_policy import GraphPolicy, Kind, NodeEmbedding
from desim.agents.learning.custom import check_known, custom_network
from desim.agents.learning.learned import AgentConfig, LearnedAgent
from desim.agents.learning.policy import NumpyMLP, Policy, action_for, computes_as
from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagObservation, JobState
from desim.problems.dag.graph_encoder import (
    CANDIDATE_FEATURES,
    FIXED_FEATURES,
    JOB_FEATURES,
    GraphEncoder,
    GraphSizes,
    JobGraph,
    JobProgress,
    describe_candidates,
    describe_progress,
    describe_system,
    offer_of,
    placeable,
    unit_of,
)

__all__ = ["CustomGraphAgent", "EmbeddedJob", "GraphAgent", "GraphConfig", "GraphNetwork", "Mode"]

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class EmbeddedJob:
    """Precomputed network values of the nodes of one job.

    Attributes
    ----------
    told : array of float, shape (num_nodes, D)
        Contribution of each node to the summary of its job.
    scored : array of float, shape (num_nodes, 32)
        Contribution of each node to the first layer of the scoring network.
    """

    told: Floats
    scored: Floats


class GraphNetwork:
    """A trained network, evaluated in NumPy.

    Parameters
    ----------
    policy : GraphPolicy
        Trained network; later changes of its weights have no effect.
    """

    @staticmethod
    def can_copy(policy: Policy) -> bool:
        """Return whether a network is a plain ``GraphPolicy``, without its own computation."""
        if not isinstance(policy, GraphPolicy):
            return False
        embedding = policy.embedding
        parts = [embedding.prepare, policy.of_node, policy.of_job, policy.score, policy.wait]
        if embedding.kind != "local":
            parts += [embedding.gather, embedding.other]
        return (
            computes_as(policy, GraphPolicy, "_scores", "_embed", "_recall", "_embedded")
            and computes_as(embedding, NodeEmbedding, "message", "aggregate", "update", "propagate")
            and all(map(NumpyMLP.can_copy, parts))
        )

    def __init__(self, policy: GraphPolicy) -> None:
        self.kind = policy.kind
        self.width = policy.width
        embedding = policy.embedding
        self._prepare = NumpyMLP(embedding.prepare)
        if self.kind != "local":
            self._gather, self._other = NumpyMLP(embedding.gather), NumpyMLP(embedding.other)
        self._of_node, self._of_job = NumpyMLP(policy.of_node), NumpyMLP(policy.of_job)
        self._score, self._wait = NumpyMLP(policy.score), NumpyMLP(policy.wait)
        first, self._bias = self._score.layers[0]
        lengths = len(FIXED_FEATURES) + self.width, len(JOB_FEATURES) + self.width, len(CANDIDATE_FEATURES)
        self._by_node, self._by_job, self._by_candidate, self._by_whole = np.split(first, np.cumsum(lengths).tolist())

    def embed(self, graphs: Sequence[JobGraph]) -> list[EmbeddedJob]:
        """Return the embedded nodes of jobs.

        Parameters
        ----------
        graphs : sequence of JobGraph
            Graphs of at least one job; all are embedded together.
        """
        starts = np.cumsum([0, *(len(graph.nodes) for graph in graphs)])
        own = np.concatenate([graph.nodes for graph in graphs])
        edges = np.concatenate([graph.edges + begin for graph, begin in zip(graphs, starts[:-1], strict=True)])
        times = np.concatenate([graph.edge_times for graph in graphs])
        embedded = self._embed(own, edges, times)
        both = np.concatenate([own, embedded], axis=1)
        told, scored = self._of_node(both), both @ self._by_node
        return [EmbeddedJob(told[a:b], scored[a:b]) for a, b in pairwise(starts.tolist())]

    def _embed(self, nodes: Floats, edges: NDArray[np.int64], times: Floats) -> Floats:
        own: Floats = self._prepare(nodes)
        if self.kind == "local":
            return own
        levels = np.zeros(len(nodes), np.int64)
        for parent, child in reversed(edges.tolist()):  # in topological order
            levels[parent] = max(levels[parent], levels[child] + 1)
        embedded = own.copy()
        for level in range(1, int(levels.max()) + 1):
            chosen = levels[edges[:, 0]] == level
            parents, children = edges[chosen].T
            heard = embedded[children]
            total = np.zeros_like(own)
            np.add.at(total, parents, heard)
            known = np.zeros((len(nodes), 1), np.float32)
            np.add.at(known[:, 0], parents, times[chosen])
            here = levels == level
            embedded[here] = self._gather(total[here]) + own[here]
            embedded[here] += self._other(known[here])
        return embedded

    def describe(self, jobs: Floats, told: Floats, system: Floats) -> tuple[Floats, Floats]:
        """Return the jobs' contributions to the first scoring layer, and the summary of the system.

        Parameters
        ----------
        jobs : array of float, shape (j, G)
            Progress features of the jobs.
        told : array of float, shape (j, D)
            For each job, mean of ``told`` over its unassigned nodes.
        system : array of float, shape (S,)
            Features of the system.

        Returns
        -------
        tuple of arrays of float, shape (j, 32) and (D + S,)
            Contributions of the jobs, which include that of the system; and the summary.
        """
        summary = self._of_job(np.concatenate([jobs, told], axis=1))
        whole = np.concatenate([summary.mean(axis=0), system])
        shares = np.concatenate([jobs, summary], axis=1) @ self._by_job
        shares += whole @ self._by_whole + self._bias
        return shares, whole

    def scores(self, shares: Floats, candidates: Floats) -> Floats:
        """Return the scores of candidates, shape (c,).

        Parameters
        ----------
        shares : array of float, shape (c, 32)
            Contributions of their nodes and jobs to the first layer.
        candidates : array of float, shape (c, K)
            Features of the candidates.
        """
        found: Floats = self._score.after_first(shares + candidates @ self._by_candidate)[:, 0]
        return found

    def wait_score(self, whole: Floats) -> float:
        """Return the score of waiting.

        Parameters
        ----------
        whole : array of float, shape (D + S,)
            Summary of the system, from :meth:`describe`.
        """
        return float(self._wait(whole)[0])


GRAPH = "graph"
"""Name of the network in :mod:`desim.agents.dag.graph_policy`."""

Mode = Literal["idle", "immediate", "planned"]

"""Names of the modes, see :class:`GraphConfig`."""


@dataclass(frozen=True)
class GraphConfig(AgentConfig[Policy]):
    """Network and mode.

    Parameters
    ----------
    kind : {"messages", "local"}
        Kind of network: "messages" passes messages from nodes to their parents, "local" uses only a node's features.
    mode : {"idle", "immediate", "planned"}
        When nodes are assigned: "idle": to idle executors only, possibly after waiting for a better one; "immediate":
        as soon as they are ready, as in LACHESIS; "planned": as soon as their parents are assigned, with insertion, for
        batches.
    width : int
        Length of an embedding and of a summary.
    hidden : tuple of int
        Numbers of units of the hidden layers that score candidates.
    network : str
        Name of the network: "graph", or MODULE:NAME, a custom network, which must accept any numbers of jobs, nodes and
        edges.
    relative : bool
        Whether features count times relative to the mean run time of a node, instead of in seconds, so that decisions
        do not depend on the unit of time.
    """

    agent_kind: ClassVar[str] = "graph"

    kind: Kind = "messages"
    mode: Mode = "idle"
    width: int = 8
    hidden: tuple[int, ...] = (32, 16, 8)
    network: str = GRAPH
    relative: bool = False

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        check_known("network", self.network, (GRAPH,))
        check_choice("kind", self.kind, get_args(Kind))
        check_choice("mode", self.mode, get_args(Mode))
        if self.width < 1 or not self.hidden or min(self.hidden) < 1:
            raise InvalidConfiguration(
                f"width and hidden: got {self.width!r} and {self.hidden!r}, expected integers >= 1"
            )

    @property
    def only_idle(self) -> bool:
        """Whether nodes wait until an executor is idle."""
        return self.mode == "idle"

    @property
    def plans_ahead(self) -> bool:
        """Whether nodes are assigned before their parents have finished."""
        return self.mode == "planned"

    @property
    def considers(self) -> frozenset[str]:
        """What agents of this mode take into account: on pools, only mode "idle" looks at demands."""
        return frozenset({"outages", "arrivals"}) | ({"demands"} if self.only_idle else set())

    @property
    def allocation(self) -> Allocation:
        """Rule that chooses executors: DEFT; in mode "planned", with insertion."""
        return InsertionDEFT() if self.plans_ahead else DEFT()

    def encoder(self, sizes: GraphSizes | None = None) -> GraphEncoder:
        """Return the encoder of the observation."""
        return GraphEncoder(self.allocation.allocate, only_idle=self.only_idle, sizes=sizes, relative=self.relative)

    def policy(self, rng: Generator) -> Policy:
        """Return a new network (actor and critic) with weights from a random generator."""
        if self.network != GRAPH:
            return custom_network(self.network, self.encoder(), rng)
        return GraphPolicy(self.kind, rng, width=self.width, hidden=self.hidden)


class _Known(NamedTuple):
    """Stored values of a job between decisions."""

    graph: JobGraph
    embedded: EmbeddedJob


class GraphAgent(LearnedAgent):
    """Agent that assigns the node with the highest network score to the executor that DEFT chooses, or waits.

    It waits if waiting has the highest score.

    Parameters
    ----------
    policy : GraphPolicy
        Network; later changes of its weights have no effect.
    config : GraphConfig
        Network and mode of the agent.
    name : str
        Name for records and tables.

    Raises
    ------
    InvalidConfiguration
        If the network overrides the computation; :class:`CustomGraphAgent` is for those, and :meth:`of` chooses.
    """

    config_type = GraphConfig

    def __init__(self, policy: GraphPolicy, config: GraphConfig, *, name: str = "graph") -> None:
        if not GraphNetwork.can_copy(policy):
            raise InvalidConfiguration(
                f"policy: got {type(policy).__name__}, which overrides GraphPolicy's computation, expected a plain "
                "GraphPolicy; try CustomGraphAgent, or GraphAgent.of, which chooses"
            )
        self.network = GraphNetwork(policy)
        self.config = config
        self.name = name
        self.plans_ahead = config.plans_ahead
        self.allocation = config.allocation
        self.considers = config.considers
        self.reset({}, np.random.default_rng(0))

    @classmethod
    def of(cls, config: GraphConfig, policy: Policy, *, name: str) -> Any:
        """Return the agent for a configuration and a network; networks with their own computation run in torch."""
        if GraphNetwork.can_copy(policy):
            return super().of(config, policy, name=name)
        return CustomGraphAgent(policy, config, name=name)

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run."""
        self._known: dict[JobState, _Known] = {}
        self._states: list[JobState] = []
        self._place: dict[JobState, int] = {}
        self._progress: list[JobProgress] = []
        self._submitted = np.zeros(0)
        self._unit = 1.0
        self._told = np.zeros((0, self.network.width), np.float32)

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the next node; None to wait."""
        scores = self.scores(observation)
        return None if scores is None else self.choose(observation, int(scores.argmax()))

    def scores(self, observation: DagObservation) -> Floats | None:
        """Return the scores of all actions, which are unnormalized log-probabilities.

        Parameters
        ----------
        observation : DagObservation
            Current decision; the decisions of a run must be passed in order.

        Returns
        -------
        array of float, shape (c,) or (c + 1,), or None
            Scores of the ready nodes in order, on pools of those that fit; in mode "idle", followed by that of waiting,
            which is minus infinity if waiting is impossible. None if no executor can take a node.
        """
        available, time = observation.available_times, observation.time
        offer = self._offer = offer_of(observation, list(observation.ready.values()), only_idle=self.config.only_idle)
        if not offer.usable.any():
            return None
        self._follow(observation)
        nodes = offer.nodes
        places = [self._place[state] for state, _ in nodes]
        ranks = np.array([self._known[state].graph.upward_rank[node] for state, node in nodes])
        work = np.array([self._progress[place].time for place in places])
        candidates = describe_candidates(
            nodes, ranks, work, offer.available, usable=offer.usable, time=time, unit=self._unit
        )
        system = describe_system(observation, available, offer.idle, self._progress, candidates, unit=self._unit)
        unfinished = [state.num_unfinished for state in self._states]
        jobs = describe_progress(self._progress, unfinished, time - self._submitted, self._unit)
        shares, whole = self.network.describe(jobs, self._told, system)
        of_nodes = np.array([self._known[state].embedded.scored[node] for state, node in nodes])
        of_nodes += shares[places]
        scores = self.network.scores(of_nodes, candidates)
        can_wait = self.config.only_idle and system[-1] > 0
        if offer.usable.ndim == 1 and any(state.is_restricted for state in self._states):
            able = placeable(nodes, offer.times(0))
            if not able.any() and not can_wait:
                return None
            scores[~able] = -np.inf
        if not self.config.only_idle:
            return scores
        wait = self.network.wait_score(whole) if can_wait else -np.inf
        return np.append(scores, np.float32(wait))

    def choose(self, observation: DagObservation, action: int) -> Assign | None:
        """Return the assignment for an action.

        Parameters
        ----------
        observation : DagObservation
            Current decision, whose scores were the last to be asked for.
        action : int
            Index in :meth:`scores`.

        Returns
        -------
        Assign or None
            Assignment of the node by DEFT; None to wait.
        """
        if action == len(self._offer.nodes):
            return None
        return self.allocation.allocate(observation, *self._offer.nodes[action], self._offer.times(action))

    def _follow(self, observation: DagObservation) -> None:
        """Update for jobs that arrived or left and nodes that were assigned."""
        states = list(observation.jobs.values())
        if states != self._states:
            self._take_over(observation, states)
        for place, state in enumerate(states):
            known = self._known[state]
            progress = known.graph.progress(state.assigned)
            if progress is not self._progress[place]:
                self._progress[place] = progress
                left = ~state.assigned
                self._told[place] = known.embedded.told[left].sum(axis=0) / max(np.count_nonzero(left), 1)

    def _take_over(self, observation: DagObservation, states: list[JobState]) -> None:
        """Embed new jobs, drop jobs that left, and realign the values of the others."""
        before = self._place
        progress, told = self._progress, self._told
        new = [state for state in states if state not in self._known]
        if new:
            graphs = [JobGraph(state, observation.executors, relative=self.config.relative) for state in new]
            for state, graph, embedded in zip(new, graphs, self.network.embed(graphs), strict=True):
                self._known[state] = _Known(graph, embedded)
        self._known = {state: self._known[state] for state in states}
        self._unit = unit_of([known.graph for known in self._known.values()]) if self.config.relative else 1.0
        self._states = states
        self._place = {state: place for place, state in enumerate(states)}
        self._submitted = np.array([state.job.submission_time for state in states])
        self._told = np.zeros((len(states), self.network.width), np.float32)
        self._progress = [JobProgress(0, 0.0, 0.0)] * len(states)
        for place, state in enumerate(states):
            old = before.get(state)
            if old is not None:
                self._progress[place], self._told[place] = progress[old], told[old]


class CustomGraphAgent:
    """Agent that assigns the node that a custom network scores highest.

    Parameters
    ----------
    policy : Policy
        Custom network.
    config : GraphConfig
        Mode of the agent.
    name : str
        Name for records and tables.
    """

    def __init__(self, policy: Policy, config: GraphConfig, *, name: str = "graph") -> None:
        self.policy = policy.eval()
        self.config = config
        self.considers: frozenset[str] = getattr(config, "considers", frozenset({"outages", "arrivals"}))
        self.name = name
        self.plans_ahead = getattr(config, "plans_ahead", False)
        self.encoder = config.encoder()

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the next node; None to wait."""
        self._make_room(observation)
        if self.encoder.is_forced(observation):
            return None
        action = int(action_for(self.policy, self.encoder.encode(observation)))
        answer: Assign | None = self.encoder.decode(observation, action)[0]
        return answer

    def _make_room(self, observation: DagObservation) -> None:
        """Replace the encoder by a larger one if its capacity is too small."""
        dags = [state.job for state in observation.jobs.values()]
        needed = GraphSizes(
            max(len(dags), 1),
            max((job.num_nodes for job in dags), default=1),
            max((job.num_edges for job in dags), default=0),
            max(len(observation.ready), 1),
        )
        now = astuple(self.encoder.sizes)
        if any(want > there for want, there in zip(astuple(needed), now, strict=True)):
            doubled = (max(2 * want, there) for want, there in zip(astuple(needed), now, strict=True))
            self.encoder = self.config.encoder(GraphSizes(*doubled))
