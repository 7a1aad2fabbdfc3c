"""Training of graph networks on queries like those of TPC-H: desim's own, LACHESIS as printed, Decima as released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim import plugins
from desim.agents.dag.graph_agent import GraphConfig
from desim.agents.dag.printed import DecimaConfig, LachesisConfig
from desim.agents.dag.registry import create
from desim.agents.learning.custom import check_known, custom_reward
from desim.agents.learning.experience import Arrays
from desim.agents.learning.imitation import ExpertLabelledEnv, advice, imitate
from desim.agents.learning.learner import LearningConfig
from desim.agents.learning.policy import Policy
from desim.agents.learning.settings import TrainingSettings
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.envs import ACTION_MASK
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

Objective = Literal["makespan", "completion_time"]
"""What is to be short: all, or the mean time from arrival to completion of a job."""

MEASURES = {"makespan": "makespan", "completion_time": "turnaround_time_mean"}
"""What decides which weights are best, by objective."""

CANDIDATES_PER_JOB = 4
"""Room for ready nodes in the arrays of an observation."""

RANDOM_NODES, RANDOM_EDGES, RANDOM_CANDIDATES = 24, 96, 6
"""Room for the nodes and edges of random graphs, and for the ready ones of each."""

VARIED_NODES, VARIED_EDGES, VARIED_CANDIDATES = 110, 440, 12
"""The same for varied ones."""

OBJECTIVE = "objective"
"""The reward that is as the objective says."""

PATIENT = "patient"
"""The expert that is a rule over what is encoded."""

MINIBATCH = 256
"""Samples a step where an agent is the expert: its episodes are few, as it takes its time."""

ADVISED = 3
"""What the seeds begin with of episodes in which an agent is the expert."""

_DELAY = CANDIDATE_FEATURES.index("delay")


def patient(observations: Arrays, order: str, most_delay: float) -> NDArray[Any]:
    """Return the first candidate, by an order, that an idle executor finishes about as soon as any other would.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Of :class:`desim.problems.dag.graph_encoder.GraphEncoder`.
    order : str
        The feature of a candidate that is least for the first one.
    most_delay : float
        A node is held back if the logarithm of the ratio of the time that it takes on the best idle executor to that on
        the best of all, waiting for that one included, is larger.

    Returns
    -------
    array of int, shape (B,)
        Candidates, or to wait. Where waiting is impossible, the node that loses least. Unless nodes are kept back until
        an executor is idle, none loses anything.
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
    "completion_time": partial(patient, order="before_by_work", most_delay=SOON),
}
"""What networks imitate, by objective."""


@dataclass(frozen=True)
class GraphEpisodes:
    """Where episodes come from: each setting of a cluster is drawn at random.

    Parameters
    ----------
    num_jobs : tuple of two ints
        Least and most jobs of an episode.
    num_executors : tuple of int
        Numbers of executors, one of which is drawn for an episode; their speeds are drawn as well.
    ccr : tuple of float
        Communication-to-computation ratios, one of which is drawn for an episode.
    intervals : tuple of float
        Mean seconds between jobs, one of which is drawn for an episode; 0 for all at time 0.
    graphs : tuple of str
        Kinds of jobs, one of which is drawn for an episode: "tpch" queries, "random" graphs, "varied" ones of up to 110
        nodes.
    loads : tuple of float
        If there are any, one of them is drawn for an episode in place of the interval: the work that is submitted in a
        time, by what all executors can do in it; 0 for all at time 0.

    Raises
    ------
    InvalidConfiguration
        If there is nothing to draw from.
    """

    num_jobs: tuple[int, int] = (15, 30)
    num_executors: tuple[int, ...] = (10,)
    ccr: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0)
    intervals: tuple[float, ...] = (0.0, 45.0)
    graphs: tuple[str, ...] = ("tpch",)
    loads: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if not 1 <= self.num_jobs[0] <= self.num_jobs[1]:
            raise InvalidConfiguration(f"num_jobs is {self.num_jobs!r}, want two numbers from 1 on, in order")
        for name in ("num_executors", "ccr", "intervals", "graphs"):
            if not getattr(self, name):
                raise InvalidConfiguration(f"{name} is empty: there is nothing to draw from")

    def draw(self, rng: Generator, *, plan_ahead: bool = False) -> DagCluster:
        """Return the cluster of an episode, in which nodes may be assigned as soon as their parents are if it says so.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        plan_ahead : bool
            As for the cluster.
        """
        make: Callable[..., Any] = plugins.episode_workload("dag")
        low, high = self.num_jobs
        further: dict[str, Any] = {}  # drawn only where there is a choice, so that other episodes stay what they are
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
        """Room for all that may be drawn."""
        most = self.num_jobs[1]
        if self.graphs == ("tpch",):
            return GraphSizes(jobs=most, candidates=CANDIDATES_PER_JOB * most)
        if "varied" not in self.graphs:
            return GraphSizes(most, RANDOM_NODES, RANDOM_EDGES, RANDOM_CANDIDATES * most)
        return GraphSizes(most, VARIED_NODES, VARIED_EDGES, VARIED_CANDIDATES * most)


@dataclass(frozen=True)
class GraphTraining(TrainingSettings[Policy]):
    """Train a graph network of desim's own for DAG jobs; the weights and their card are written to the directory.

    Examples::

        desim train dag --quick --out quick
        desim train dag --objective completion_time --warm-start 8 --out short-waits
        desim train dag --mode planned --intervals 0 --warm-start 6 --out batch
        desim train dag --warm-start 6 --total-steps 0 --expert search:dag:completion_time:100 --out imitating

    Ctrl-C ends a training early; the same command goes on from where it was, to the same numbers.

    Parameters
    ----------
    agent : GraphConfig
        Network and mode.
    learning : LearningConfig
        How it learns.
    training : TrainingConfig
        Length, seed and environments.
    episodes : GraphEpisodes
        Workloads.
    objective : {"makespan", "completion_time"}
        Earn minus the time that passes, or minus the time that jobs spend in the system.
    reward : str
        "objective", or ``module:name``: one of your own, with which the weights with the highest return are kept.
    warm_start : int
        Rounds in which the network first learns to do what an expert does. With ``total_steps`` 0 it learns no more.
    expert : str
        "patient": a rule, which is patient in mode idle; or any agent of the cluster, such as
        "search:dag:completion_time:100", which sees all that there is. From these the network learns which node comes
        next, the executor being chosen as ever, in whole episodes and from those of all rounds. Agents that wait are
        imitated in mode idle.
    """

    trained: ClassVar[str] = "dag"
    rules: ClassVar[tuple[str, ...]] = ("rank-up-deft", "rank-up-deft-patient", "least-work-deft-patient")

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

    def __post_init__(self) -> None:
        """Refuse what does not go together, and experts that are not known."""
        super().__post_init__()
        check_known("reward", self.reward, (OBJECTIVE,))
        if self.expert != PATIENT:
            create(self.expert)

    @classmethod
    def quick(cls) -> GraphTraining:
        """Return a small training of a few minutes."""
        default = cls()
        training = replace(default.training, total_steps=60_000)
        return cls(training=training, episodes=GraphEpisodes((8, 12)), warm_start=4)

    @property
    def default_name(self) -> str:
        """The kind and the objective."""
        return f"{self.agent.kind}-{self.objective.replace('_', '-')}"

    def task(self) -> Task:
        """Return what is to be learned."""
        make = partial(make_env, self)
        if self.reward != OBJECTIVE:
            return Task(make, make, measure)
        return Task(make, make, measure, objective=MEASURES[self.objective], maximize=False)

    def warm_up(self, training: Training) -> float | None:
        """Let the network imitate the expert in whole episodes; return in which share of the decisions it agreed."""
        if not self.warm_start:
            return None
        learner, rounds = training.student, self.warm_start
        if self.expert == PATIENT:
            collect = partial(training.collector.collect_episodes, learner.policy, self.training.num_steps)
            return imitate(learner, collect, EXPERTS[self.objective], rounds=rounds)[-1]
        with training.collector_of(partial(_advised, self), ADVISED) as collector:
            collect = partial(collector.collect_episodes, learner.policy, self.training.num_steps)
            return imitate(learner, collect, advice, rounds=rounds, memory=rounds, minibatch_size=MINIBATCH)[-1]


def _advised(settings: GraphTraining) -> ExpertLabelledEnv:
    """Return an environment for training that tells what the expert would do."""
    return ExpertLabelledEnv(make_env(settings), create(settings.expert))


def make_env(settings: GraphTraining) -> DagEnv:
    """Return an environment for training or for validation, which differ by the seeds of their episodes.

    It does not ask where there is no choice.

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
"""Batches of 1 to 30 jobs at the ratio at which fixed rules reach the paper's numbers."""


@dataclass(frozen=True)
class _PrintedTraining(TrainingSettings[Policy]):
    """What trainings of published agents have in common: the makespan is to be short.

    Parameters
    ----------
    episodes : GraphEpisodes
        Workloads.
    """

    agent: LachesisConfig | DecimaConfig = field(default_factory=LachesisConfig)
    episodes: GraphEpisodes = LACHESIS_EPISODES

    @property
    def default_name(self) -> str:
        """The agent."""
        return f"tpch-{self.agent.agent_kind}"

    def task(self) -> Task:
        """Return what is to be learned."""
        make = partial(_printed_env, self)
        return Task(make, make, measure, objective=MEASURES["makespan"], maximize=False)


@dataclass(frozen=True)
class LachesisTraining(_PrintedTraining):
    """Train LACHESIS by algorithm 1 of its paper; the weights and their card are written to the directory.

    Examples::

        desim train dag-lachesis --quick --out quick
        desim train dag-lachesis --out lachesis

    Parameters
    ----------
    agent : LachesisConfig
        The networks.
    learning : LearningConfig
        Algorithm 1 with what the paper does not state.
    training : TrainingConfig
        Length, seed and environments; the length of an episode is drawn from an exponential distribution whose mean
        grows.
    episodes : GraphEpisodes
        Workloads.
    """

    trained: ClassVar[str] = "dag-lachesis"

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
        default_factory=lambda: TrainingConfig(
            total_steps=80_000,
            num_envs=1,
            num_steps=300,
            whole_episodes=True,
            first_length=40.0,
            validation_episodes=12,
            validate_every=10,
        )
    )

    @classmethod
    def quick(cls) -> LachesisTraining:
        """Return a small training of a minute."""
        training = replace(cls().training, total_steps=2_000, num_steps=100, validation_episodes=4)
        return cls(training=training, episodes=replace(LACHESIS_EPISODES, num_jobs=(1, 8)))


@dataclass(frozen=True)
class DecimaTraining(_PrintedTraining):
    """Train Decima, with DEFT for its executors, as its authors released it; the weights are written to the directory.

    Examples::

        desim train dag-decima --quick --out quick
        desim train dag-decima --total-steps 20000000 --out decima

    Parameters
    ----------
    agent : DecimaConfig
        The network.
    learning : LearningConfig
        REINFORCE; the weight of the entropy is that of the program, whose rewards are ten times as large.
    training : TrainingConfig
        Length, seed and environments: 16 face the same jobs, whose mean return at a time is the baseline.
    episodes : GraphEpisodes
        Workloads.
    """

    trained: ClassVar[str] = "dag-decima"

    agent: DecimaConfig = field(default_factory=DecimaConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            algorithm="reinforce", learning_rate=1e-3, entropy_coef=0.1, discount=1.0, standardize=False
        )
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            total_steps=160_000,
            num_envs=16,
            num_steps=300,
            whole_episodes=True,
            first_length=40.0,
            group_size=16,
            validation_episodes=12,
            validate_every=5,
        )
    )

    @classmethod
    def quick(cls) -> DecimaTraining:
        """Return a small training of a minute."""
        training = replace(cls().training, total_steps=6_000, num_steps=100, validation_episodes=4)
        return cls(training=training, episodes=replace(LACHESIS_EPISODES, num_jobs=(1, 8)))


def _printed_env(settings: _PrintedTraining) -> DagEnv:
    """Return an environment for training or for validation, which differ by the seeds of their episodes."""
    encoder = settings.agent.encoder(settings.episodes.sizes)
    return DagEnv(settings.episodes.draw, observation=encoder, reward="makespan", skip_forced=True)


def measure(gym_env: Any) -> dict[str, float]:
    """Return makespan and mean completion time of an episode in seconds, and the gap of the first to its lower bound.

    Parameters
    ----------
    gym_env : gymnasium.Env
        An environment of DAG jobs whose episode has ended.
    """
    metrics = gym_env.unwrapped.result().metrics()
    gap = metrics["makespan"] / metrics["lower_bound"] - 1.0
    return {name: metrics[name] for name in MEASURES.values()} | {"gap": gap}
