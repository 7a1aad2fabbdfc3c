"""Trainings of graph networks on TPC-H-like queries: desim's own, LACHESIS as published, and Decima as released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim import plugins
from desim.agents.dag.graph_agent import GraphConfig
from desim.agents.dag.printed import DecimaConfig, LachesisConfig
from desim.agents.dag.registry import create
from desim.agents.learning.custom import check_known, custom_reward
from desim.agents.learning.imitation import ExpertLabelledEnv, advice, imitate
from desim.agents.learning.learner import LearningConfig
from desim.agents.learning.policy import Policy
from desim.agents.learning.pretrained import pretrained_stem
from desim.agents.learning.settings import TrainingSettings
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.envs import ACTION_MASK
from desim.envs.base import Arrays
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster
from desim.problems.dag.env import DagEnv
from desim.problems.dag.graph_encoder import CANDIDATE_FEATURES, PROMPT, SOON, GraphSizes

__all__ = [
    "EXPERTS",
    "DecimaTraining",
    "GraphEpisodes",
    "GraphTraining",
    "LachesisTraining",
    "Objective",
    "make_env",
    "measure",
    "patient",
]

Objective = Literal["makespan", "turnaround_time_mean"]
"""Names of the quantities to minimize: makespan, or mean time from arrival to completion of a job."""

CANDIDATES_PER_JOB = 4
"""Capacity for ready nodes in the arrays of an observation."""

RANDOM_NODES, RANDOM_EDGES, RANDOM_CANDIDATES = 24, 96, 6
"""Capacity for the nodes and edges of random graphs, and for the ready nodes of each."""

VARIED_NODES, VARIED_EDGES, VARIED_CANDIDATES = 110, 440, 12
"""Capacity for varied graphs, likewise."""

FAMILY_NODES, FAMILY_EDGES = 60, 192
"""Capacity for graphs of families."""

OBJECTIVE = "objective"
"""Name of the reward that follows from the objective."""

PATIENT = "patient"
"""Name of the expert that is a rule over encoded observations."""

MINIBATCH = 256
"""Samples per optimizer step if the expert is an agent: agents are slow, so the episodes are few."""

ADVISED = 3
"""First element of the seeds of episodes with an expert agent's actions."""

_DELAY = CANDIDATE_FEATURES.index("delay")


def patient(observations: Arrays, order: str, most_delay: float) -> NDArray[Any]:
    """Return the first candidate in an order that an idle executor finishes about as early as any executor would.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Observations of :class:`desim.problems.dag.graph_encoder.GraphEncoder`.
    order : str
        Name of the candidate feature that orders the candidates; the smallest value comes first.
    most_delay : float
        Largest acceptable delay: logarithm of the ratio of the time on the best idle executor to the time on the best
        of all executors, including the wait for it. Nodes with a larger delay are held back.

    Returns
    -------
    array of int, shape (B,)
        Chosen candidates, or waiting. If waiting is impossible, the node with the smallest delay. In modes without
        waiting for idle executors, no node has a delay.
    """
    candidates = observations["candidates"]
    room = candidates.shape[1]
    mask = observations[ACTION_MASK]
    possible = mask[:, :room].astype(bool)
    delay = candidates[:, :, _DELAY]
    soon = possible & (delay <= most_delay)
    chosen = np.where(soon, candidates[:, :, CANDIDATE_FEATURES.index(order)], np.inf).argmin(1)
    least = np.where(possible, delay, np.inf).argmin(1)
    wait = np.where(mask[:, room:].any(1), room, least)
    result: NDArray[Any] = np.where(soon.any(1), chosen, wait)
    return result


EXPERTS: dict[str, Callable[[Arrays], NDArray[Any]]] = {
    "makespan": partial(patient, order="before_by_rank", most_delay=PROMPT),
    "turnaround_time_mean": partial(patient, order="before_by_work", most_delay=SOON),
}
"""Rules that networks imitate, by objective."""


@dataclass(frozen=True)
class GraphEpisodes:
    """Source of the episodes; each setting of an episode's cluster is sampled at random.

    Parameters
    ----------
    num_jobs : tuple of two ints
        Smallest and largest number of jobs per episode.
    num_executors : tuple of int
        Numbers of executors, one of which is sampled for each episode, as are the executors' speeds.
    ccr : tuple of float
        Communication-to-computation ratios, one of which is sampled for each episode.
    intervals : tuple of float
        Mean times between job arrivals in seconds, one of which is sampled for each episode; 0: all jobs at time 0.
    graphs : tuple of str
        Kinds of jobs, one of which is sampled for each episode: queries ("tpch"), random graphs ("random"), graphs of
        up to 110 nodes ("varied"), or graphs of a family, such as "fork-join" (see
        :func:`desim.workloads.dag.registry.draw`).
    loads : tuple of float
        Offered loads that replace the intervals, one of which is sampled for each episode: submitted work per time as
        a share of what all executors can do; 0: all jobs at time 0. Empty: use the intervals.

    Raises
    ------
    InvalidConfiguration
        If a setting is empty or out of range.
    """

    num_jobs: tuple[int, int] = (15, 30)
    num_executors: tuple[int, ...] = (10,)
    ccr: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0)
    intervals: tuple[float, ...] = (0.0, 45.0)
    graphs: tuple[str, ...] = ("tpch",)
    loads: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        if not 1 <= self.num_jobs[0] <= self.num_jobs[1]:
            raise InvalidConfiguration(f"num_jobs: got {self.num_jobs!r}, expected two numbers >= 1 in ascending order")
        for name in ("num_executors", "ccr", "intervals", "graphs"):
            if not getattr(self, name):
                raise InvalidConfiguration(f"{name}: got no value, expected at least one")

    def draw(self, rng: Generator, *, plan_ahead: bool = False) -> DagCluster:
        """Return the cluster of a sampled episode.

        Parameters
        ----------
        rng : numpy.random.Generator
            Random generator.
        plan_ahead : bool
            Whether nodes may be assigned as soon as their parents are assigned.
        """
        make: Callable[..., Any] = plugins.episode_workload("dag")
        low, high = self.num_jobs
        further: dict[str, Any] = {}  # sampled only if there is a choice, so that other episodes stay the same
        if self.graphs != ("tpch",):
            further["graphs"] = str(rng.choice(np.array(self.graphs)))
        if self.loads:
            further["load"] = float(rng.choice(np.array(self.loads)))
        jobs, executors = make(
            rng,
            num_jobs=int(rng.integers(low, high + 1)),
            num_executors=int(rng.choice(np.array(self.num_executors))),
            ccr=float(rng.choice(np.array(self.ccr))),
            mean_interval=float(rng.choice(np.array(self.intervals))),
            **further,
        )
        return DagCluster(jobs, executors, plan_ahead=plan_ahead)

    @property
    def sizes(self) -> GraphSizes:
        """Capacity for the largest episode."""
        most = self.num_jobs[1]
        if self.graphs == ("tpch",):
            return GraphSizes(jobs=most, candidates=CANDIDATES_PER_JOB * most)
        if set(self.graphs) <= {"tpch", "random"}:
            return GraphSizes(most, RANDOM_NODES, RANDOM_EDGES, RANDOM_CANDIDATES * most)
        if "varied" in self.graphs:
            return GraphSizes(most, VARIED_NODES, VARIED_EDGES, VARIED_CANDIDATES * most)
        return GraphSizes(most, FAMILY_NODES, FAMILY_EDGES, VARIED_CANDIDATES * most)


@dataclass(frozen=True)
class GraphTraining(TrainingSettings[Policy]):
    """Train desim's graph network for DAG jobs and write its weights and model card to a directory.

    Examples::

        desim train dag --quick --out quick
        desim train dag --objective turnaround_time_mean --warm-start 8 --out short-waits
        desim train dag --mode planned --intervals 0 --warm-start 6 --out batch
        desim train dag --warm-start 6 --total-steps 0 --expert search:dag:turnaround_time_mean:100 --out imitating

    Ctrl-C interrupts a training. The same command resumes it and gives the same numbers as without the interruption.

    Parameters
    ----------
    agent : GraphConfig
        Network and mode.
    learning : LearningConfig
        Learning algorithm.
    training : TrainingConfig
        Length, seed and environments.
    episodes : GraphEpisodes
        Workloads.
    objective : {"makespan", "turnaround_time_mean"}
        Quantity to minimize: the time until all jobs are done, or the time that jobs spend in the system.
    reward : str
        Name of the reward: "objective", which follows from the objective, or MODULE:NAME, a custom reward, with which
        the weights with the highest return are kept.
    warm_start : int
        Number of rounds of imitating the expert before learning starts. With total_steps 0, only the warm start runs.
    expert : str
        Name of the agent to imitate in the warm start: "patient", a rule that waits for faster executors in mode idle;
        or any DAG agent, such as "search:dag:turnaround_time_mean:100", which sees the full state. Imitating an agent
        teaches only the choice of the next node, not of its executor, and uses whole episodes and all past rounds.
        Agents that wait require mode idle.
    start : str
        Weights to begin with instead of random ones, such as those of an imitation: a pretrained name, or a path with a
        slash. They must have the configuration ``agent``.
    """

    trained: ClassVar[str] = "dag"
    rules: ClassVar[tuple[str, ...]] = ("rank-up-deft", "rank-up-deft-patient", "least-work-deft-patient")
    quick_values: ClassVar[Mapping[str, Any]] = {"total_steps": 60_000, "num_jobs": (8, 12), "warm_start": 4}

    agent: GraphConfig = field(default_factory=GraphConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            learning_rate=1e-3, minibatch_size=2048, entropy_coef=0.0, discount=1.0, gae_lambda=0.9, time_unit=100.0
        )
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            num_envs=64, num_steps=1_500, whole_episodes=True, group_size=8, validate_every=4, averaging=0.9
        )
    )
    episodes: GraphEpisodes = field(default_factory=GraphEpisodes)
    objective: Objective = "makespan"
    reward: str = OBJECTIVE
    expert: str = PATIENT
    start: str = ""

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if settings contradict each other or the expert is unknown."""
        super().__post_init__()
        check_known("reward", self.reward, (OBJECTIVE,))
        if self.expert != PATIENT:
            create(self.expert)

    @property
    def default_name(self) -> str:
        """Name of the agent, after its kind and objective."""
        return f"{self.agent.kind}-{self.objective.replace('_', '-')}"

    def task(self) -> Task:
        """Return the learning task: environments, metrics and the objective."""
        make = partial(make_env, self)
        if self.reward != OBJECTIVE:
            return Task(make, make, measure)
        return Task(make, make, measure, objective=self.objective, maximize=False)

    def warm_up(self, training: Training) -> float | None:
        """Load the first weights, if any, and train the network to imitate the expert on whole episodes.

        Parameters
        ----------
        training : Training
            Training that begins.

        Returns
        -------
        float or None
            Agreement of the network with the expert in the last round; None without imitation.
        """
        if self.start:
            self._load_start(training.learner.policy)
        if not self.warm_start:
            return None
        learner, rounds = training.student, self.warm_start
        if self.expert == PATIENT:
            collect = partial(training.collector.collect_episodes, learner.policy, self.training.num_steps)
            return imitate(learner, collect, EXPERTS[self.objective], rounds=rounds)[-1]
        with training.collector_of(partial(_advised, self), ADVISED) as collector:
            collect = partial(collector.collect_episodes, learner.policy, self.training.num_steps)
            return imitate(learner, collect, advice, rounds=rounds, memory=rounds, minibatch_size=MINIBATCH)[-1]

    def _load_start(self, policy: Policy) -> None:
        stem = Path(self.start) if "/" in self.start else pretrained_stem(self.start, self.agent.agent_kind)
        config, start = GraphConfig.load(stem)
        if config != self.agent:
            raise InvalidConfiguration(f"start: got weights for {config}, expected {self.agent}")
        policy.load_state_dict(start.state_dict())


def _advised(settings: GraphTraining) -> ExpertLabelledEnv:
    """Return a training environment that labels each decision with the expert's action."""
    return ExpertLabelledEnv(make_env(settings), create(settings.expert))


def make_env(settings: GraphTraining) -> DagEnv:
    """Return an environment for training or validation; the two differ only in the seeds of their episodes.

    Decisions without a choice are skipped.

    Parameters
    ----------
    settings : GraphTraining
        Observation, reward and workloads.
    """
    return DagEnv(
        partial(settings.episodes.draw, plan_ahead=settings.agent.mode == "planned"),
        observation=settings.agent.encoder(settings.episodes.sizes),
        reward=settings.objective if settings.reward == OBJECTIVE else custom_reward(settings.reward, ()),
        skip_forced=True,
    )


LACHESIS_EPISODES = GraphEpisodes((1, 30), num_executors=(50,), ccr=(3.5,), intervals=(0.0,))
"""Batches of 1 to 30 jobs, with the CCR at which fixed rules reach the paper's numbers."""
PRINTED_TRAINING = TrainingConfig(num_steps=300, whole_episodes=True, first_length=40.0, validation_episodes=12)
"""What the trainings of published agents share: whole episodes, of lengths with a mean that grows."""
PRINTED_QUICK = {"num_steps": 100, "validation_episodes": 4, "num_jobs": (1, 8)}
"""Settings of their trainings of about a minute."""


@dataclass(frozen=True)
class _PrintedTraining(TrainingSettings[Policy]):
    """Common part of the trainings of published agents, which minimize the makespan.

    Parameters
    ----------
    episodes : GraphEpisodes
        Workloads.
    """

    agent: LachesisConfig | DecimaConfig = field(default_factory=LachesisConfig)
    episodes: GraphEpisodes = LACHESIS_EPISODES

    @property
    def default_name(self) -> str:
        """Name of the agent."""
        return f"tpch-{self.agent.agent_kind}"

    def task(self) -> Task:
        """Return the learning task: environments, metrics and the objective."""
        make = partial(_printed_env, self)
        return Task(make, make, measure, objective="makespan", maximize=False)


@dataclass(frozen=True)
class LachesisTraining(_PrintedTraining):
    """Train LACHESIS by algorithm 1 of its paper and write its weights and model card to a directory.

    Examples::

        desim train dag-lachesis --quick --out quick
        desim train dag-lachesis --out lachesis

    Parameters
    ----------
    agent : LachesisConfig
        Networks.
    learning : LearningConfig
        Learning algorithm: algorithm 1, completed by settings that the paper does not state.
    training : TrainingConfig
        Length, seed and environments. Episode lengths are sampled from an exponential distribution with a growing mean.
    episodes : GraphEpisodes
        Workloads.
    """

    trained: ClassVar[str] = "dag-lachesis"
    quick_values: ClassVar[Mapping[str, Any]] = {**PRINTED_QUICK, "total_steps": 2_000}

    agent: LachesisConfig = field(default_factory=LachesisConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            algorithm="q_actor_critic",
            learning_rate=1e-3,
            minibatch_size=16,
            epochs=4,
            entropy_coef=0.002,
            discount=1.0,
            target_rate=0.5,
        )
    )
    training: TrainingConfig = field(
        default_factory=lambda: replace(PRINTED_TRAINING, total_steps=80_000, num_envs=1, validate_every=10)
    )


@dataclass(frozen=True)
class DecimaTraining(_PrintedTraining):
    """Train Decima with DEFT as its authors released it and write its weights and model card to a directory.

    Examples::

        desim train dag-decima --quick --out quick
        desim train dag-decima --total-steps 20000000 --out decima

    Parameters
    ----------
    agent : DecimaConfig
        Network.
    learning : LearningConfig
        Learning algorithm: REINFORCE, with the entropy weight of the released program, whose rewards are ten times as
        large.
    training : TrainingConfig
        Length, seed and environments: 16 environments run the same jobs, and their mean return at a time is the
        baseline.
    episodes : GraphEpisodes
        Workloads.
    """

    trained: ClassVar[str] = "dag-decima"
    quick_values: ClassVar[Mapping[str, Any]] = {**PRINTED_QUICK, "total_steps": 6_000}

    agent: DecimaConfig = field(default_factory=DecimaConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            algorithm="reinforce", learning_rate=1e-3, entropy_coef=0.1, discount=1.0, standardize=False
        )
    )
    training: TrainingConfig = field(
        default_factory=lambda: replace(
            PRINTED_TRAINING, total_steps=160_000, num_envs=16, group_size=16, validate_every=5
        )
    )


def _printed_env(settings: _PrintedTraining) -> DagEnv:
    """Return an environment for training or validation; the two differ only in the seeds of their episodes."""
    encoder = settings.agent.encoder(settings.episodes.sizes)
    return DagEnv(settings.episodes.draw, observation=encoder, reward="makespan", skip_forced=True)


def measure(gym_env: Any) -> dict[str, float]:
    """Return makespan and mean completion time of a finished episode in seconds, and the makespan's relative gap.

    The gap is relative to the lower bound on the makespan.

    Parameters
    ----------
    gym_env : gymnasium.Env
        Environment of DAG jobs at the end of an episode.
    """
    metrics = gym_env.unwrapped.result().metrics()
    gap = metrics["makespan"] / metrics["lower_bound"] - 1.0
    return {name: metrics[name] for name in get_args(Objective)} | {"gap": gap}
