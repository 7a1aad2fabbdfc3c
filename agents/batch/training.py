"""Trainings of agents for the batch cluster: the split-window agent, DBF, and the inspectors.

Training and validation workloads are generated from disjoint sets of seeds. Real traces, and the traces of the papers,
are used for evaluation only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from typing import Any, ClassVar, Literal

from desim import plugins
from desim.agents.batch.dbf import DBFConfig
from desim.agents.batch.inspector import BackfilledPriority, InspectorConfig, ReleasedBase, SchedInspectorConfig
from desim.agents.batch.registry import create
from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.batch.window_rules import EXPERTS
from desim.agents.learning.custom import check_known, custom_reward
from desim.agents.learning.imitation import ExpertLabelledEnv, advice, imitate
from desim.agents.learning.lanes import Measure
from desim.agents.learning.learner import LearningConfig
from desim.agents.learning.policy import MLPPolicy, Policy
from desim.agents.learning.settings import TrainingSettings
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.checks import check_float, check_int
from desim.envs.base import Episodes
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import Job
from desim.problems.batch.env import REWARDS, BatchEnv, MixedEpisodes, TraceEpisodes
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
"""First element of the seeds of episodes with an expert's actions; it keeps them apart from the training's seeds."""

LONGEST = 20
"""Largest number of decisions per job in an episode, as in the environment."""

WINDOWS = tuple((size - tail, tail) for size in (8, 10, 16, 20, 32, 64) for tail in range(1, size + 1))
"""The windows of the DBF paper's figure 5 that have at least one slot at the tail."""

MEASURES = (
    "waiting_time_mean",
    "waiting_time_p99",
    "waiting_time_max",
    "queue_length_mean",
    "utilization",
    "queued_load_mean",
)

FLOOR = -1.0
"""Lower limit of an inspector's reward per sequence of jobs; minus infinity would give the paper's reward."""


@dataclass(frozen=True)
class EpisodeOptions:
    """Source of the episodes. Traces with different loads, overestimates and cluster sizes alternate.

    Parameters
    ----------
    load : tuple of float
        Offered loads of the generated traces; the DBF paper's trace has 1.06. A single number is also accepted.
    overestimate : tuple of float
        Largest ratios of requested to actual run time; the ratio of each job is sampled between 1 and this.
    cluster_sizes : tuple of int
        Numbers of cores of the clusters; empty for the num_cores of the agent.
    num_traces : int
        Number of generated traces for training; validation has a quarter as many.
    trace_jobs : int
        Number of jobs per trace.
    num_jobs : int
        Number of jobs per episode.
    """

    load: tuple[float, ...] = (1.06,)
    overestimate: tuple[float, ...] = (1.0,)
    cluster_sizes: tuple[int, ...] = ()
    num_traces: int = 64
    trace_jobs: int = 10_000
    num_jobs: int = 1_000

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        for name in ("load", "overestimate"):
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(value) if isinstance(value, Iterable) else (value,))
        if not (self.load and self.overestimate):
            raise InvalidConfiguration("load or overestimate: got an empty tuple, expected at least one number")
        for load in self.load:
            check_float("load", load, above=0)
        for cores in self.cluster_sizes:
            check_int("cluster_sizes", cores, least=1)


@lru_cache(maxsize=4)
def trace_episodes(
    options: EpisodeOptions, num_cores: int, *, validation: bool, arrivals: Literal["open", "closed"] = "open"
) -> Episodes:
    """Return the episodes for training or validation, generated once per process.

    Parameters
    ----------
    options : EpisodeOptions
        Description of the episodes.
    num_cores : int
        Number of cores of the cluster if the options do not contain cluster sizes.
    validation : bool
        Whether the episodes are for validation, with other seeds than those for training.
    arrivals : {"open", "closed"}
        Whether jobs keep arriving until all jobs of an episode have started ("open") or not ("closed").

    Returns
    -------
    callable
        Function that samples an episode from the generated traces.
    """
    provider = plugins.workload_provider("batch", "lublin")
    count = max(options.num_traces // 4, 1) if validation else options.num_traces
    first = VALIDATION_SEED if validation else 1
    settings = list(product(options.load, options.overestimate, options.cluster_sizes or (num_cores,)))
    traces: dict[int, list[list[Job]]] = {}
    for number in range(max(count, len(settings))):  # at least one trace per setting
        load, overestimate, cores = settings[number % len(settings)]
        more = {"num_jobs": options.trace_jobs, "load": load, "overestimate": overestimate}
        loaded = provider.load("lublin", num_cores=cores, seed=first + number, **more)
        traces.setdefault(cores, []).append(list(loaded.jobs))
    parts = [  # with a cycle for each arrival, as in the paper
        TraceEpisodes(one, cores, num_jobs=options.num_jobs, arrivals=arrivals, cycle="arrival")
        for cores, one in traces.items()
    ]
    return parts[0] if len(parts) == 1 else MixedEpisodes(parts)


@dataclass(frozen=True)
class SplitWindowTraining(TrainingSettings[Policy]):
    """Train an agent for the batch cluster and write its weights and model card to a directory.

    Examples::

        desim train batch --quick --out quick
        desim train batch --head 19 --tail 1 --seed 2 --num-workers 2 --out m20
        desim train batch --group-size 8 --whole-episodes --num-steps 4000 --warm-start 12 --out grouped

    Ctrl-C interrupts a training. The same command resumes it and gives the same numbers as without the interruption.

    Parameters
    ----------
    agent : SplitWindowConfig
        Window and network.
    learning : LearningConfig
        Learning algorithm. The discount is 2 % per simulated hour, regardless of the number of decisions.
    training : TrainingConfig
        Length, seed and environments.
    episodes : EpisodeOptions
        Workloads.
    any_window : bool
        Sample a window of 8 to 64 slots, at least one of them at the tail, for each episode; needs network "scorer".
    reward : str
        Name of the reward: "waiting" (minus the waiting time of all jobs), "long-waits" (minus its fourth power),
        the DBF paper's "paper", "scaled" (the same with scaling constants), or MODULE:NAME for a custom reward. For
        long-waits and custom rewards, the weights with the highest return are kept.
    warm_start : int
        Number of rounds of imitating the expert before learning starts. With total_steps 0, only the warm start runs.
    expert : str
        Name of the agent to imitate in the warm start: a rule that sees only the window, "shortest" (job first), the
        same with a reservation, "reserving", or "aged" (shortest and oldest first); or any batch agent, for example
        search:batch, which sees the whole queue. Imitating such an agent uses whole episodes and all past rounds.
    """

    trained: ClassVar[str] = "batch"
    rules: ClassVar[tuple[str, ...]] = ("easy-fcfs", "easy-sjf")
    # A training this short does not improve on random initial weights by itself, so it begins with imitation.
    quick_values: ClassVar[Mapping[str, Any]] = {
        "num_traces": 16,
        "total_steps": 400_000,
        "validate_every": 10,
        "warm_start": 6,
    }

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
        """Raise InvalidConfiguration if settings contradict each other or the expert is unknown."""
        super().__post_init__()
        check_known("reward", self.reward, REWARDS)
        if self.expert not in EXPERTS:
            create(self.expert)

    @property
    def default_name(self) -> str:
        """Name of the agent, after its window."""
        return f"split-window-{self.agent.head}-{self.agent.tail}"

    def task(self) -> Task:
        """Return the learning task: environments, metrics and the objective."""
        by_return = self.reward not in ("waiting", "paper", "scaled")  # the mean wait is not the objective then
        objective = "return" if by_return else "waiting_time_mean"
        return _task(self, make_env, measure, objective, maximize=by_return, compiled=True)

    def warm_up(self, training: Training) -> float | None:
        """Train the policy to imitate the expert in the visited states; return the agreement of the last round."""
        if not self.warm_start:
            return None
        learner, rounds = training.student, self.warm_start
        if self.expert in EXPERTS:
            return imitate(learner, training.collect, EXPERTS[self.expert], rounds=rounds)[-1]
        with training.collector_of(partial(_advised, self), ADVISED) as collector:
            collect = partial(collector.collect_episodes, learner.policy, LONGEST * self.episodes.num_jobs)
            return imitate(learner, collect, advice, rounds=rounds, memory=rounds)[-1]


def _task(settings: TrainingSettings[Any], make: Callable[..., Any], measured: Measure, *how: Any, **more: Any) -> Task:
    """Return the task of settings whose environments for validation have separate workloads."""
    return Task(partial(make, settings), partial(make, settings, validation=True), measured, *how, **more)


def _advised(settings: SplitWindowTraining) -> ExpertLabelledEnv:
    """Return a training environment that labels each decision with the expert's action."""
    return ExpertLabelledEnv(make_env(settings), create(settings.expert))


def make_env(settings: SplitWindowTraining, *, validation: bool = False) -> BatchEnv:
    """Return an environment for training or validation that skips decisions without a choice.

    Parameters
    ----------
    settings : SplitWindowTraining
        Window, observation, reward and workloads.
    validation : bool
        Whether the environment is for validation.
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
    """Return metrics of a finished episode; jobs still queued count with their waiting time so far.

    Parameters
    ----------
    gym_env : gymnasium.Env
        Batch environment.
    """
    metrics = gym_env.unwrapped.result().metrics(unfinished="include")
    return {name: metrics[name] for name in MEASURES}


@dataclass(frozen=True)
class DBFTraining(TrainingSettings[MLPPolicy]):
    """Train DBF as published and write its weights and model card to a directory.

    Source: Wang, Harwood and Rodriguez, "Deep Back-Filling", HPCC 2022, section IV-A: PPO with one update after each
    episode, which ends with the 1,000th job start. No action is masked and no decision is skipped. An episode has
    about 3,000 decisions; the paper's 100,000 episodes correspond to --total-steps 300000000.

    Examples::

        desim train batch-dbf --out m20
        desim train batch-dbf --head 19 --tail 1 --out m20-t1

    Ctrl-C interrupts a training. The same command, or one with more steps, resumes it.

    Parameters
    ----------
    agent : DBFConfig
        Window and network.
    learning : LearningConfig
        Learning algorithm, with the paper's learning rate, clip range, discount and minibatch size (it states no more).
    training : TrainingConfig
        Length, seed and environments.
    episodes : EpisodeOptions
        Workloads.
    """

    trained: ClassVar[str] = "batch-dbf"
    rules: ClassVar[tuple[str, ...]] = ("easy-fcfs", "backfilling-smallest-first")
    quick_values: ClassVar[Mapping[str, Any]] = {
        "num_traces": 16,
        "total_steps": 30_000,
        "validation_episodes": 32,
        "validate_every": 5,
    }

    agent: DBFConfig = field(default_factory=DBFConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(last_rate=1.0, entropy_coef=0.0, minibatch_size=128, target_kl=0.0)
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            total_steps=600_000,
            num_envs=1,
            num_steps=LONGEST * 1_000,
            whole_episodes=True,
            validation_episodes=4,
            validate_every=10,
        )
    )
    episodes: EpisodeOptions = field(default_factory=EpisodeOptions)

    @property
    def default_name(self) -> str:
        """Name of the agent, after its window."""
        return f"dbf-m{self.agent.head + self.agent.tail}-t{self.agent.tail}"

    def task(self) -> Task:
        """Return the learning task: environments, metrics and the objective."""
        how: dict[str, Any] = {"maximize": False, "sampled": self.agent.sampled, "compiled": True}
        return _task(self, make_dbf_env, measure, "waiting_time_mean", **how)


def make_dbf_env(settings: DBFTraining, *, validation: bool = False) -> BatchEnv:
    """Return an environment for training or validation with the paper's observation and reward.

    Parameters
    ----------
    settings : DBFTraining
        Window and workloads.
    validation : bool
        Whether the environment is for validation.
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
class _Inspecting(TrainingSettings[Policy]):
    """Common part of the trainings of inspectors.

    Parameters
    ----------
    num_cores : int
        Number of cores of the cluster.
    episodes : EpisodeOptions
        Workloads.
    """

    quick_values: ClassVar[Mapping[str, Any]] = {
        "total_steps": 60_000,
        "num_envs": 50,
        "validation_episodes": 32,
        "validate_every": 20,
    }

    agent: InspectorConfig | SchedInspectorConfig = field(default_factory=InspectorConfig)
    num_cores: int = 256
    episodes: EpisodeOptions = field(default_factory=lambda: EpisodeOptions(num_traces=16, num_jobs=128))

    @property
    def default_name(self) -> str:
        """Name of the agent, after its priority."""
        return f"{self.agent.agent_kind}-{self.agent.base}"

    def sequences(self, *, validation: bool) -> Episodes:
        """Return sequences cut from generated traces."""
        return trace_episodes(self.episodes, self.num_cores, validation=validation, arrivals="closed")


@dataclass(frozen=True)
class InspectorTraining(_Inspecting):
    """Train a SchedInspector for a priority rule and write its weights and model card to a directory.

    Source: Zhang, Dai and Xie, "SchedInspector", HPDC 2022: PPO on sequences of 128 jobs; the reward is the relative
    improvement of the average bounded slowdown over the base policy alone. For the authors' released program, see
    batch-schedinspector. Departures from the paper: the loss per sequence is limited, because otherwise a few sequences
    with almost no waiting would decide everything; a new network accepts every job at first, so there is no warm start;
    several environments run the same sequence; and the weights with the lowest validation mean are kept.

    Examples::

        desim train batch-inspector --base f1 --out f1

    Parameters
    ----------
    agent : InspectorConfig
        Base policy, rules and network.
    learning : LearningConfig
        Learning algorithm. There is no discounting, because only the end of a sequence is rewarded.
    training : TrainingConfig
        Length, seed and environments.
    num_cores : int
        Number of cores of the cluster.
    episodes : EpisodeOptions
        Workloads.
    reward : {"bounded_slowdown_mean", "waiting_time_mean"}
        Metric whose relative improvement over the base policy is rewarded, and whose validation mean is minimized.
    """

    trained: ClassVar[str] = "batch-inspector"
    quick_values: ClassVar[Mapping[str, Any]] = {**_Inspecting.quick_values, "num_envs": 64}

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
    reward: Literal["bounded_slowdown_mean", "waiting_time_mean"] = "bounded_slowdown_mean"

    def task(self) -> Task:
        """Return the learning task: environments, metrics and the objective."""
        return _task(self, make_inspector_env, measure_inspector, self.reward, maximize=False)


def make_inspector_env(settings: InspectorTraining, *, validation: bool = False) -> InspectorEnv:
    """Return an environment for training or validation with sequences cut from generated traces.

    Parameters
    ----------
    settings : InspectorTraining
        Base policy, rules, reward and workloads.
    validation : bool
        Whether the environment is for validation.
    """
    agent, sequences = settings.agent, settings.sequences(validation=validation)
    return InspectorEnv(BackfilledPriority(agent.base), sequences, reward=settings.reward, floor=FLOOR, **agent.rules())


@dataclass(frozen=True)
class SchedInspectorTraining(_Inspecting):
    """Train SchedInspector as its released program does and write its weights and model card to a directory.

    Source: Zhang, Dai and Xie, "SchedInspector", HPDC 2022, and the program DIR-LAB/SchedInspector: 100 sequences
    of 128 jobs per update, up to 80 optimizer steps over all of them at once, any number of rejections, and a reward
    that is the improvement divided by the larger of the two slowdowns. Its 4,000 updates are
    about --total-steps 60000000.

    Examples::

        desim train batch-schedinspector --out released

    Parameters
    ----------
    agent : SchedInspectorConfig
        Base policy, rules and network.
    learning : LearningConfig
        Learning algorithm. There is no discounting, because only the end of a sequence is rewarded.
    training : TrainingConfig
        Length, seed and environments.
    num_cores : int
        Number of cores of the cluster.
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

    def task(self) -> Task:
        """Return the learning task: environments, metrics and the objective."""
        make = make_schedinspector_env
        return _task(self, make, measure_inspector, "bounded_slowdown_mean", maximize=False, sampled=True)


def make_schedinspector_env(settings: SchedInspectorTraining, *, validation: bool = False) -> InspectorEnv:
    """Return an environment: for training with unlimited rejections, for validation with the agent's limit.

    Parameters
    ----------
    settings : SchedInspectorTraining
        Base policy, rules and workloads.
    validation : bool
        Whether the environment is for validation.
    """
    agent, sequences = settings.agent, settings.sequences(validation=validation)
    rules = agent.rules() if validation else agent.rules() | {"max_rejections": None}
    return InspectorEnv(ReleasedBase(agent.base), sequences, released=True, **rules)


def measure_inspector(gym_env: Any) -> dict[str, float]:
    """Return the metrics of a finished sequence, with the inspector and (prefix ``base_``) with the base policy alone.

    Parameters
    ----------
    gym_env : InspectorEnv
        Environment at the end of an episode.
    """
    found: dict[str, float] = {}
    for prefix, metrics in zip(("", "base_"), gym_env.improvement.metrics, strict=True):
        found |= {prefix + name: metrics[name] for name in OBJECTIVES}
    return found
