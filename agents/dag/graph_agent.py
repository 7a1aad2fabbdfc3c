"""LACHESIS and Decima-DEFT: a graph network selects a node, DEFT allocates it.

Sources: Luo et al., "Learning to optimize DAG scheduling in heterogeneous environment" (LACHESIS), section IV, and Mao
et al., "Learning scheduling algorithms for data processing clusters" (Decima), SIGCOMM 2019. Departure: beside the
paper's mode, in which a node is bound to an executor as soon as it is executable, there is one in which nodes are kept
back until an executor is idle, and the network may wait for a better one; and one that plans whole batches, with
insertion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag._graph_network import EmbeddedJob, GraphNetwork
from desim.agents.dag.allocation import DEFT, Allocation, InsertionDEFT
from desim.agents.dag.graph_policy import INPUTS, GraphPolicy, Kind
from desim.agents.learning.learned import AgentConfig, LearnedAgent
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagObservation, JobState
from desim.problems.dag.features import (
    JobGraph,
    JobProgress,
    describe_candidates,
    describe_progress,
    describe_system,
)
from desim.problems.dag.graph_encoder import GraphEncoder, GraphSizes

__all__ = ["GraphAgent", "GraphConfig", "Mode"]

Floats = NDArray[np.float32]
Mode = Literal["idle", "immediate", "planned"]
"""When nodes are assigned, see :class:`GraphConfig`."""


@dataclass(frozen=True)
class GraphConfig(AgentConfig[GraphPolicy]):
    """Network and mode.

    Parameters
    ----------
    kind : {"lachesis", "decima"}
        Whose embedding and features.
    mode : {"idle", "immediate", "planned"}
        Assign nodes to idle executors only, and wait for better ones; or, as in the paper, as soon as executable; or,
        for batches, plan ahead: as soon as their parents are assigned, with insertion.
    width : int
        Numbers in an embedding or a summary.
    hidden : tuple of int
        Units of the layers that score.
    """

    agent_kind: ClassVar[str] = "graph"

    kind: Kind = "lachesis"
    mode: Mode = "idle"
    width: int = 8
    hidden: tuple[int, ...] = (32, 16, 8)

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if self.kind not in INPUTS:
            raise InvalidConfiguration(f"no network {self.kind!r}; there are {', '.join(INPUTS)}")
        if self.mode not in get_args(Mode):
            raise InvalidConfiguration(f"no mode {self.mode!r}; there are {', '.join(get_args(Mode))}")
        if self.width < 1 or not self.hidden or min(self.hidden) < 1:
            raise InvalidConfiguration(f"width {self.width!r}, hidden {self.hidden!r}: want numbers of at least 1")

    @property
    def only_idle(self) -> bool:
        """Whether nodes are kept back until an executor is idle."""
        return self.mode == "idle"

    @property
    def allocation(self) -> Allocation:
        """What allocates the nodes: DEFT, in mode "planned" with insertion."""
        return InsertionDEFT() if self.mode == "planned" else DEFT()

    def encoder(self, sizes: GraphSizes | None = None) -> GraphEncoder:
        """Return the encoder of the observation."""
        return GraphEncoder(self.allocation.allocate, only_idle=self.only_idle, sizes=sizes)

    def policy(self, rng: Generator) -> GraphPolicy:
        """Return a new network, actor and critic, with weights from a generator."""
        return GraphPolicy(self.kind, rng, width=self.width, hidden=self.hidden)


class _Known(NamedTuple):
    """What is kept of a job between decisions."""

    graph: JobGraph
    embedded: EmbeddedJob


class GraphAgent(LearnedAgent):
    """Assigns the node that a network scores highest to the executor that DEFT chooses, until it scores waiting higher.

    Parameters
    ----------
    policy : GraphPolicy
        The network; later changes of its weights have no effect.
    config : GraphConfig
        Which one it is, and the mode.
    name : str
        For records and tables.
    """

    config_type = GraphConfig

    def __init__(self, policy: GraphPolicy, config: GraphConfig, *, name: str = "graph") -> None:
        self.network = GraphNetwork(policy)
        self.config = config
        self.name = name
        self.allocation = config.allocation
        self.reset({}, np.random.default_rng(0))

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run."""
        self._known: dict[JobState, _Known] = {}
        self._states: list[JobState] = []
        self._place: dict[JobState, int] = {}
        self._progress: list[JobProgress] = []
        self._submitted = np.zeros(0)
        self._told = np.zeros((0, self.network.width), np.float32)

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the node that comes next; None to wait."""
        scores = self.scores(observation)
        return None if scores is None else self.choose(observation, int(scores.argmax()))

    def scores(self, observation: DagObservation) -> Floats | None:
        """Return the scores of all actions: unnormalized logarithms of their probabilities.

        Parameters
        ----------
        observation : DagObservation
            A decision; those of a run are shown one after another.

        Returns
        -------
        array of float, shape (c,) or (c + 1,), or None
            Of the executable nodes in order, and, in mode "idle", of waiting, minus infinity where that is impossible.
            None if there is no choice, as no executor can take a node.
        """
        available, time = observation.available_times, observation.time
        idle = available <= time
        usable = idle if self.config.only_idle else available < np.inf
        if not usable.any():
            return None
        self._follow(observation)
        nodes = list(observation.executable.values())
        places = [self._place[state] for state, _ in nodes]
        ranks = np.array([self._known[state].graph.rank_up[node] for state, node in nodes])
        work = np.array([self._progress[place].time for place in places])
        candidates = describe_candidates(nodes, ranks, work, available, usable=usable, time=time)
        system = describe_system(observation, available, idle, self._progress, candidates)
        unfinished = [state.num_unfinished for state in self._states]
        jobs = describe_progress(self._progress, unfinished, time - self._submitted)
        shares, whole = self.network.describe(jobs, self._told, system)
        of_nodes = np.array([self._known[state].embedded.scored[node] for state, node in nodes])
        of_nodes += shares[places]
        scores = self.network.scores(of_nodes, candidates)
        if not self.config.only_idle:
            return scores
        wait = self.network.wait_score(whole) if system[-1] > 0 else -np.inf
        return np.append(scores, np.float32(wait))

    def choose(self, observation: DagObservation, action: int) -> Assign | None:
        """Return what an action stands for.

        Parameters
        ----------
        observation : DagObservation
            A decision.
        action : int
            A place in :meth:`scores`.

        Returns
        -------
        Assign or None
            The assignment that DEFT makes of the node, or None to wait.
        """
        nodes = list(observation.executable.values())
        if action == len(nodes):
            return None
        available = observation.available_times
        usable = np.where(available <= observation.time, available, np.inf) if self.config.only_idle else available
        return self.allocation.allocate(observation, *nodes[action], usable)

    def _follow(self, observation: DagObservation) -> None:
        """Take in which jobs have come and gone, and which of their nodes have been assigned."""
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
        """Embed the jobs that are new, forget those that are gone, and line up what is known of the others."""
        before = self._place
        progress, told = self._progress, self._told
        new = [state for state in states if state not in self._known]
        if new:
            graphs = [JobGraph(state, observation.executors) for state in new]
            for state, graph, embedded in zip(new, graphs, self.network.embed(graphs), strict=True):
                self._known[state] = _Known(graph, embedded)
        self._known = {state: self._known[state] for state in states}
        self._states = states
        self._place = {state: place for place, state in enumerate(states)}
        self._submitted = np.array([state.job.submission_time for state in states])
        self._told = np.zeros((len(states), self.network.width), np.float32)
        self._progress = [JobProgress(0, 0.0, 0.0)] * len(states)
        for place, state in enumerate(states):
            old = before.get(state)
            if old is not None:
                self._progress[place], self._told[place] = progress[old], told[old]
