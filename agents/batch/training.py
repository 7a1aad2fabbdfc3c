"""Trainings for the batch cluster: of the split-window agent, and of an inspector.

Workloads for training and for validation are generated from seeds that are kept apart; a real trace, or the one that
a paper used, is left for the evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

from desim import plugins
from desim.agents.batch.inspector import BackfilledPriority, InspectorConfig
from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.batch.window_rules import EXPERTS
from desim.agents.learning.imitation import imitate
from desim.agents.learning.learner import LearningConfig
from desim.agents.learning.policy import Policy
from desim.agents.learning.settings import TrainingSettings
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.checks import finite
from desim.problems.batch.env import BatchEnv, TraceEpisodes
from desim.problems.batch.inspection import OBJECTIVES, InspectorEnv

__all__ = [
    "EpisodeOptions",
    "InspectorTraining",
    "SplitWindowTraining",
    "make_env",
    "make_inspector_env",
    "measure",
    "measure_inspector",
    "trace_episodes",
]

VALIDATION_SEED = 1_000_000

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
    """Where episodes come from.

    Parameters
    ----------
    load : float
        Offered load of the generated traces; the DBF paper's trace has 1.06.
    overestimate : float
        Generated jobs request between 1 and this times their actual run time.
    num_traces : int
        Generated traces for training; a quarter as many for validation.
    trace_jobs : int
        Jobs of a trace.
    num_jobs : int
        Jobs of an episode.
    """

    load: float = 1.06
    overestimate: float = 1.0
    num_traces: int = 64
    trace_jobs: int = 10_000
    num_jobs: int = 1_000

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        finite("load", self.load, above=0)


@lru_cache(maxsize=4)
def trace_episodes(
    options: EpisodeOptions, num_cores: int, *, validation: bool, arrivals: Literal["open", "closed"] = "open"
) -> TraceEpisodes:
    """Return the episodes for training or validation, made once in each process.

    Parameters
    ----------
    options : EpisodeOptions
        What they are like.
    num_cores : int
        Cores of the cluster.
    validation : bool
        Whether they are for validation, from other seeds.
    arrivals : {"open", "closed"}
        Whether jobs go on arriving until those of an episode have been started.

    Returns
    -------
    TraceEpisodes
        Of generated traces.
    """
    provider = plugins.workload_provider("batch", "lublin")
    count = max(options.num_traces // 4, 1) if validation else options.num_traces
    first = VALIDATION_SEED if validation else 1
    more = {"num_jobs": options.trace_jobs, "load": options.load, "overestimate": options.overestimate}
    traces = [
        list(provider.load("lublin", num_cores=num_cores, seed=seed, **more).jobs)
        for seed in range(first, first + count)
    ]
    return TraceEpisodes(traces, num_cores, num_jobs=options.num_jobs, arrivals=arrivals)


@dataclass(frozen=True)
class SplitWindowTraining(TrainingSettings[Policy]):
    """Train an agent of the batch cluster; its weights and their card are written to the directory.

    Examples::

        desim train batch --quick --out quick
        desim train batch --head 19 --tail 1 --seed 2 --num-workers 2 --out m20
        desim train batch --network mlp --reward paper --total-steps 2000000 --out as-published
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
    reward : {"waiting", "long-waits", "paper", "scaled"}
        Minus the waiting time of all jobs, or its fourth power; the DBF paper's, or that with constants.
    warm_start : int
        Rounds in which the agent first learns to do what a rule does.
    expert : {"shortest", "reserving", "aged"}
        The rule of the window: the shortest job first; the same with a reservation; or the shortest and oldest first.
    """

    trained: ClassVar[str] = "batch"

    agent: SplitWindowConfig = field(default_factory=SplitWindowConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            learning_rate=3e-3, epochs=6, minibatch_size=2048, discount=0.98, decay=0.9, time_unit=3600.0
        )
    )
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(total_steps=3_000_000))
    episodes: EpisodeOptions = field(default_factory=EpisodeOptions)
    any_window: bool = False
    reward: Literal["waiting", "long-waits", "paper", "scaled"] = "waiting"
    expert: Literal["shortest", "reserving", "aged"] = "reserving"

    @classmethod
    def quick(cls) -> SplitWindowTraining:
        """Return a small training of a few minutes."""
        return cls(
            episodes=EpisodeOptions(num_traces=16),
            training=TrainingConfig(total_steps=400_000, validate_every=10),
        )

    @property
    def default_name(self) -> str:
        """The name of the window."""
        return f"split-window-{self.agent.head}-{self.agent.tail}"

    def task(self) -> Task:
        """Return what is to be learned."""
        for_long_waits = self.reward == "long-waits"  # their mean is not what matters then
        return Task(
            partial(make_env, self),
            partial(make_env, self, validation=True),
            measure,
            objective="return" if for_long_waits else "waiting_time_mean",
            maximize=for_long_waits,
        )

    def warm_up(self, training: Training) -> float | None:
        """Let the policy imitate the rule while it acts itself; return in which share of the decisions it agreed."""
        if not self.warm_start:
            return None
        expert = EXPERTS[self.expert]
        return imitate(training.learner, training.collect, expert, rounds=self.warm_start)[-1]


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
        observation=agent.observation,
        reward=settings.reward,
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
class InspectorTraining(TrainingSettings[Policy]):
    """Train a SchedInspector over a priority; its weights and their card are written to the directory.

    Source: Zhang, Dai and Xie, "SchedInspector", HPDC 2022: PPO on sequences of 128 jobs, and the relative improvement
    of the average bounded slowdown over the base policy alone. Departures: what a sequence can lose is limited, because
    a few sequences with next to no waiting would decide everything; a new network begins by accepting, which is why
    there is no warm start; several environments face the same sequence; the best weights are those with the least mean.

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
            learning_rate=1e-3, minibatch_size=2048, entropy=0.03, discount=1.0, decay=1.0
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


def measure_inspector(gym_env: Any) -> dict[str, float]:
    """Return what the inspector and, after ``base_``, the base policy alone have made of a sequence that is over.

    Parameters
    ----------
    gym_env : InspectorEnv
        At the end of an episode.
    """
    found: dict[str, float] = {}
    for prefix, run in (("", gym_env.result()), ("base_", gym_env.base_result())):
        metrics = run.metrics(unfinished="include")
        found |= {prefix + name: metrics[metric] for name, metric in OBJECTIVES.items()}
    return found
