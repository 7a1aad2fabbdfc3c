"""Trainings for the batch cluster: of the split-window agent, and of an inspector.

Workloads for training and for validation are generated from seeds that are kept apart; a real trace, or the one that
a paper used, is left for the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from desim import plugins
from desim.agents.batch.dbf import DBFConfig
from desim.agents.batch.inspector import BackfilledPriority, InspectorConfig, ReleasedBase, SchedInspectorConfig
from desim.agents.batch.registry import create
from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.batch.window_rules import EXPERTS
from desim.agents.learning.custom import check_known, custom_reward
from desim.agents.learning.imitation import ExpertLabelledEnv, advice, imitate
from desim.agents.learning.learner import LearningConfig
from desim.agents.learning.policy import MLPPolicy, Policy
from desim.agents.learning.settings import TrainingSettings
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.checks import check_float, check_int
from desim.envs.base import Episodes
from desim.exceptions import InvalidConfiguration
from desim.problem import Problem
from desim.problems.batch import Job
from desim.problems.batch.env import REWARDS, BatchEnv, TraceEpisodes
from desim.problems.batch.inspection import OBJECTIVES, InspectorEnv

__all__ = [
    "DBFTraining",
    "EpisodeOptions",
    "InspectorTraining",
    "SchedInspectorTraining",
    "SplitWindowTraining",
    "make_dbf_env",
    "make_env",
    "make_inspector_env",
    "make_schedinspector_env",
    "measure",
    "measure_inspector",
    "trace_episodes",
]

VALIDATION_SEED = 1_000_000

ADVISED = 3
"""What the seeds of episodes with an expert's advice begin with, which keeps them apart from those of the training."""

LONGEST = 20
"""Decisions a job, at most, in an episode; as in the environment."""

WINDOWS = tuple((size - tail, tail) for size in (8, 10, 16, 20, 32, 64) for tail in range(1, size + 1))
"""The windows of the DBF paper's figure 5 with at least one slot at the tail."""

MEASURES = (
    "waiting_time_mean",
    "waiting_time_p99",
    "waiting_time_max",
    "queue_length_mean",
    "utilization",
    "queued_load_mean",
)

FLOOR = -1.0
"""The least that a sequence of jobs can earn an inspector; with minus infinity it would be the paper's reward."""


@dataclass(frozen=True)
class EpisodeOptions:
    """Where episodes come from. Traces of several loads, overestimates and clusters take turns.

    Parameters
    ----------
    load : tuple of float
        Offered loads of the generated traces; the DBF paper's trace has 1.06. One number stands for itself.
    overestimate : tuple of float
        Generated jobs request between 1 and this times their actual run time.
    cluster_sizes : tuple of int
        Cores of the clusters; by default as many as the agent's.
    num_traces : int
        Generated traces for training; a quarter as many for validation.
    trace_jobs : int
        Jobs of a trace.
    num_jobs : int
        Jobs of an episode.
    """

    load: tuple[float, ...] = (1.06,)
    overestimate: tuple[float, ...] = (1.0,)
    cluster_sizes: tuple[int, ...] = ()
    num_traces: int = 64
    trace_jobs: int = 10_000
    num_jobs: int = 1_000

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        for name in ("load", "overestimate"):
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(value) if isinstance(value, Iterable) else (value,))
        if not (self.load and self.overestimate):
            raise InvalidConfiguration("load or overestimate is empty: there is nothing to draw from")
        for load in self.load:
            check_float("load", load, above=0)
        for cores in self.cluster_sizes:
            check_int("cluster_sizes", cores, least=1)


@lru_cache(maxsize=4)
def trace_episodes(
    options: EpisodeOptions, num_cores: int, *, validation: bool, arrivals: Literal["open", "closed"] = "open"
) -> Episodes:
    """Return the episodes for training or validation, made once in each process.

    Parameters
    ----------
    options : EpisodeOptions
        What they are like.
    num_cores : int
        Cores of the cluster, if the options name none.
    validation : bool
        Whether they are for validation, from other seeds.
    arrivals : {"open", "closed"}
        Whether jobs go on arriving until those of an episode have been started.

    Returns
    -------
    callable
        Draws an episode of generated traces.
    """
    provider = plugins.workload_provider("batch", "lublin")
    count = max(options.num_traces // 4, 1) if validation else options.num_traces
    first = VALIDATION_SEED if validation else 1
    settings = list(product(options.load, options.overestimate, options.cluster_sizes or (num_cores,)))
    traces: dict[int, list[list[Job]]] = {}
    for number in range(max(count, len(settings))):  # each setting has a trace at least
        load, overestimate, cores = settings[number % len(settings)]
        more = {"num_jobs": options.trace_jobs, "load": load, "overestimate": overestimate}
        loaded = provider.load("lublin", num_cores=cores, seed=first + number, **more)
        traces.setdefault(cores, []).append(list(loaded.jobs))
    parts = [TraceEpisodes(one, cores, num_jobs=options.num_jobs, arrivals=arrivals) for cores, one in traces.items()]
    return parts[0] if len(parts) == 1 else partial(_one_of, parts)


def _one_of(parts: Sequence[Episodes], rng: np.random.Generator) -> Problem:
    """Return an episode of a cluster, each of which is equally likely."""
    return parts[int(rng.integers(len(parts)))](rng)


@dataclass(frozen=True)
class SplitWindowTraining(TrainingSettings[Policy]):
    """Train an agent of the batch cluster; its weights and their card are written to the directory.

    Examples::

        desim train batch --quick --out quick
        desim train batch --head 19 --tail 1 --seed 2 --num-workers 2 --out m20
        desim train batch --group-size 8 --whole-episodes --num-steps 4000 --warm-start 12 --out grouped

    Ctrl-C ends a training early; the same command goes on from where it was, to the same numbers.

    Parameters
    ----------
    agent : SplitWindowConfig
        Window and network.
    learning : LearningConfig
        How it learns. What comes an hour later counts 2 % less, whatever the number of decisions in between.
    training : TrainingConfig
        Length, seed and environments.
    episodes : EpisodeOptions
        Workloads.
    any_window : bool
        Give each episode a window of its own, of 8 to 64 slots with at least one at the tail; for the scorer.
    reward : str
        "waiting" or "long-waits": minus the waiting time of all jobs, or its fourth power; "paper" or "scaled": the DBF
        paper's, or that with constants; or ``module:name``, one of your own. With long waits and with your own the
        weights with the highest return are kept.
    warm_start : int
        Rounds in which the agent first learns to do what an expert does. With ``total_steps`` 0 it learns no more.
    expert : str
        A rule of the window: "shortest" job first; the same with a reservation, "reserving"; or the shortest and oldest
        first, "aged". Or any agent of the batch cluster, such as "search:batch", which sees the whole queue; the
        network then learns in whole episodes, from those of all rounds.
    """

    trained: ClassVar[str] = "batch"
    rules: ClassVar[tuple[str, ...]] = ("easy-fcfs", "easy-sjf")

    agent: SplitWindowConfig = field(default_factory=SplitWindowConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            learning_rate=3e-3, epochs=6, minibatch_size=2048, discount=0.98, gae_lambda=0.9, time_unit=3600.0
        )
    )
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(total_steps=3_000_000))
    episodes: EpisodeOptions = field(default_factory=EpisodeOptions)
    any_window: bool = False
    reward: str = "waiting"
    expert: str = "reserving"

    def __post_init__(self) -> None:
        """Refuse what does not go together, and experts that are not known."""
        super().__post_init__()
        check_known("reward", self.reward, REWARDS)
        if self.expert not in EXPERTS:
            create(self.expert)

    @classmethod
    def quick(cls) -> SplitWindowTraining:
        """Return a small training of a few minutes."""
        return cls(
            episodes=EpisodeOptions(num_traces=16),
            training=TrainingConfig(total_steps=400_000, validate_every=10),
            warm_start=6,  # from random weights, so short a training ends with those that it began with
        )

    @property
    def default_name(self) -> str:
        """The name of the window."""
        return f"split-window-{self.agent.head}-{self.agent.tail}"

    def task(self) -> Task:
        """Return what is to be learned."""
        by_return = self.reward not in ("waiting", "paper", "scaled")  # the mean wait is not what matters then
        return Task(
            partial(make_env, self),
            partial(make_env, self, validation=True),
            measure,
            objective="return" if by_return else "waiting_time_mean",
            maximize=by_return,
        )

    def warm_up(self, training: Training) -> float | None:
        """Let the policy imitate the expert while it acts itself; return in which share of the decisions it agreed."""
        if not self.warm_start:
            return None
        learner, rounds = training.student, self.warm_start
        if self.expert in EXPERTS:
            return imitate(learner, training.collect, EXPERTS[self.expert], rounds=rounds)[-1]
        with training.collector_of(partial(_advised, self), ADVISED) as collector:
            collect = partial(collector.collect_episodes, learner.policy, LONGEST * self.episodes.num_jobs)
            return imitate(learner, collect, advice, rounds=rounds, memory=rounds)[-1]


def _advised(settings: SplitWindowTraining) -> ExpertLabelledEnv:
    """Return an environment for training that tells what the expert would do."""
    return ExpertLabelledEnv(make_env(settings), create(settings.expert))


def make_env(settings: SplitWindowTraining, *, validation: bool = False) -> BatchEnv:
    """Return an environment for training or for validation, which does not ask where there is no choice.

    Parameters
    ----------
    settings : SplitWindowTraining
        Window, observation, reward and workloads.
    validation : bool
        Whether it is for validation.
    """
    agent, episodes = settings.agent, settings.episodes
    return BatchEnv(
        trace_episodes(episodes, agent.num_cores, validation=validation),
        agent.num_cores,
        window=WINDOWS if settings.any_window else (agent.head, agent.tail),
        reward=custom_reward(settings.reward, REWARDS),
        num_jobs=episodes.num_jobs,
        skip_forced=True,
        reserve_after=agent.reserve_after_or_never,
    )


def measure(gym_env: Any) -> dict[str, float]:
    """Return metrics of an episode that has ended; jobs still queued count with their waiting time so far.

    Parameters
    ----------
    gym_env : gymnasium.Env
        A batch environment.
    """
    metrics = gym_env.unwrapped.result().metrics(unfinished="include")
    return {name: metrics[name] for name in MEASURES}


@dataclass(frozen=True)
class DBFTraining(TrainingSettings[MLPPolicy]):
    """Train DBF as its paper prints it; its weights and their card are written to the directory.

    Source: Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, section IV-A: PPO, an update after each
    episode, which ends with the 1,000th start; nothing is masked, and all decisions are asked for. An episode has about
    3,000 decisions; the paper's 100,000 episodes are ``--total-steps 300000000``.

    Examples::

        desim train batch-dbf --out m20
        desim train batch-dbf --head 19 --tail 1 --out m20-t1

    Ctrl-C ends a training early; the same command goes on from where it was, as does one with more steps.

    Parameters
    ----------
    agent : DBFConfig
        Window and network.
    learning : LearningConfig
        How it learns: the paper's learning rate, clip, discount and minibatch; the rest it does not state.
    training : TrainingConfig
        Length, seed and environments.
    episodes : EpisodeOptions
        Workloads.
    """

    trained: ClassVar[str] = "batch-dbf"
    rules: ClassVar[tuple[str, ...]] = ("easy-fcfs", "backfilling-smallest-first")

    agent: DBFConfig = field(default_factory=DBFConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(last_rate=1.0, entropy_coef=0.0, minibatch_size=128, target_kl=0.0)
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            total_steps=300_000,
            num_envs=1,
            num_steps=LONGEST * 1_000,
            whole_episodes=True,
            validation_episodes=4,
            validate_every=1,
        )
    )
    episodes: EpisodeOptions = field(default_factory=EpisodeOptions)

    @classmethod
    def quick(cls) -> DBFTraining:
        """Return a small training of a few minutes."""
        training = TrainingConfig(30_000, num_envs=1, num_steps=LONGEST * 1_000, whole_episodes=True, validate_every=5)
        return cls(training=training, episodes=EpisodeOptions(num_traces=16))

    @property
    def default_name(self) -> str:
        """The name of the window."""
        return f"dbf-m{self.agent.head + self.agent.tail}-t{self.agent.tail}"

    def task(self) -> Task:
        """Return what is to be learned."""
        return Task(
            partial(make_dbf_env, self),
            partial(make_dbf_env, self, validation=True),
            measure,
            objective="waiting_time_mean",
            maximize=False,
            sampled=self.agent.sampled,
        )


def make_dbf_env(settings: DBFTraining, *, validation: bool = False) -> BatchEnv:
    """Return an environment for training or for validation, with the paper's observation and reward.

    Parameters
    ----------
    settings : DBFTraining
        Window and workloads.
    validation : bool
        Whether it is for validation.
    """
    agent, episodes = settings.agent, settings.episodes
    return BatchEnv(
        trace_episodes(episodes, agent.num_cores, validation=validation),
        agent.num_cores,
        window=(agent.head, agent.tail),
        observation=agent.encoder(),
        reward="paper",
        num_jobs=episodes.num_jobs,
    )


@dataclass(frozen=True)
class InspectorTraining(TrainingSettings[Policy]):
    """Train a SchedInspector over a priority; its weights and their card are written to the directory.

    Source: Zhang, Dai and Xie, "SchedInspector", HPDC 2022: PPO on sequences of 128 jobs, and the relative improvement
    of the average bounded slowdown over the base policy alone; ``batch-schedinspector`` is that. Departures: what a
    sequence can lose is limited, because a few sequences with next to no waiting would decide everything; a new network
    begins by accepting, which is why there is no warm start; several environments face the same sequence; the best
    weights are those with the least mean.

    Examples::

        desim train batch-inspector --base f1 --out f1

    Parameters
    ----------
    agent : InspectorConfig
        Base policy, rules and network.
    learning : LearningConfig
        How it learns. Nothing is discounted, because only the end of a sequence is rewarded.
    training : TrainingConfig
        Length, seed and environments.
    num_cores : int
        Cores of the cluster.
    episodes : EpisodeOptions
        Workloads.
    reward : {"bounded_slowdown", "waiting_time"}
        Whose relative improvement over the base is earned, and whose mean is to be least in validation.
    """

    trained: ClassVar[str] = "batch-inspector"

    agent: InspectorConfig = field(default_factory=InspectorConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            learning_rate=1e-3, minibatch_size=2048, entropy_coef=0.03, discount=1.0, gae_lambda=1.0
        )
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            total_steps=500_000,
            num_envs=128,
            num_steps=10_000,
            whole_episodes=True,
            group_size=16,
            validation_episodes=64,
            validate_every=5,
        )
    )
    num_cores: int = 256
    episodes: EpisodeOptions = field(default_factory=lambda: EpisodeOptions(num_traces=16, num_jobs=128))
    reward: Literal["bounded_slowdown", "waiting_time"] = "bounded_slowdown"

    @classmethod
    def quick(cls) -> InspectorTraining:
        """Return a small training of a few minutes."""
        return cls(training=TrainingConfig(60_000, num_envs=64, num_steps=10_000, whole_episodes=True, group_size=16))

    @property
    def default_name(self) -> str:
        """The name of the priority."""
        return f"inspector-{self.agent.base}"

    def task(self) -> Task:
        """Return what is to be learned."""
        return Task(
            partial(make_inspector_env, self),
            partial(make_inspector_env, self, validation=True),
            measure_inspector,
            objective=self.reward,
            maximize=False,
        )


def make_inspector_env(settings: InspectorTraining, *, validation: bool = False) -> InspectorEnv:
    """Return an environment for training or for validation, whose sequences are cut from generated traces.

    Parameters
    ----------
    settings : InspectorTraining
        Base policy, rules, reward and workloads.
    validation : bool
        Whether it is for validation.
    """
    sequences = trace_episodes(settings.episodes, settings.num_cores, validation=validation, arrivals="closed")
    base = BackfilledPriority(settings.agent.base)
    return InspectorEnv(base, sequences, reward=settings.reward, floor=FLOOR, **settings.agent.rules())


@dataclass(frozen=True)
class SchedInspectorTraining(TrainingSettings[MLPPolicy]):
    """Train the SchedInspector of the released program; its weights and their card are written to the directory.

    Source: Zhang, Dai and Xie, "SchedInspector", HPDC 2022, and the program DIR-LAB/SchedInspector: 100 sequences of
    128 jobs an update, up to 80 steps over all of them at once, any number of rejections, and an improvement that is
    divided by the larger of the two slowdowns. Its 4,000 updates are about ``--total-steps 60000000``.

    Examples::

        desim train batch-schedinspector --out released

    Parameters
    ----------
    agent : SchedInspectorConfig
        Base policy, rules and network.
    learning : LearningConfig
        How it learns. Nothing is discounted, because only the end of a sequence is rewarded.
    training : TrainingConfig
        Length, seed and environments.
    num_cores : int
        Cores of the cluster.
    episodes : EpisodeOptions
        Workloads.
    """

    trained: ClassVar[str] = "batch-schedinspector"

    agent: SchedInspectorConfig = field(default_factory=SchedInspectorConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            last_rate=1.0,
            discount=1.0,
            gae_lambda=0.97,
            entropy_coef=0.0,
            value_coef=1.0,
            epochs=80,
            minibatch_size=10_000_000,
            target_kl=0.01,
        )
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            total_steps=300_000,
            num_envs=100,
            num_steps=10_000,
            whole_episodes=True,
            validation_episodes=64,
            validate_every=2,
        )
    )
    num_cores: int = 256
    episodes: EpisodeOptions = field(default_factory=lambda: EpisodeOptions(num_traces=16, num_jobs=128))

    @classmethod
    def quick(cls) -> SchedInspectorTraining:
        """Return a small training of a few minutes."""
        return cls(training=TrainingConfig(60_000, num_envs=50, num_steps=10_000, whole_episodes=True))

    @property
    def default_name(self) -> str:
        """The name of the priority."""
        return f"schedinspector-{self.agent.base}"

    def task(self) -> Task:
        """Return what is to be learned."""
        return Task(
            partial(make_schedinspector_env, self),
            partial(make_schedinspector_env, self, validation=True),
            measure_inspector,
            objective="bounded_slowdown",
            maximize=False,
            sampled=True,
        )


def make_schedinspector_env(settings: SchedInspectorTraining, *, validation: bool = False) -> InspectorEnv:
    """Return an environment for training, without a limit to rejections, or for validation, with it.

    Parameters
    ----------
    settings : SchedInspectorTraining
        Base policy, rules and workloads.
    validation : bool
        Whether it is for validation.
    """
    agent = settings.agent
    sequences = trace_episodes(settings.episodes, settings.num_cores, validation=validation, arrivals="closed")
    rules = agent.rules() if validation else agent.rules() | {"max_rejections": None}
    return InspectorEnv(ReleasedBase(agent.base), sequences, released=True, **rules)


def measure_inspector(gym_env: Any) -> dict[str, float]:
    """Return what the inspector and, after ``base_``, the base policy alone have made of a sequence that is over.

    Parameters
    ----------
    gym_env : InspectorEnv
        At the end of an episode.
    """
    found: dict[str, float] = {}
    for prefix, metrics in zip(("", "base_"), gym_env.improvement.metrics, strict=True):
        found |= {prefix + name: metrics[metric] for name, metric in OBJECTIVES.items()}
    return found
