"""Training of OSDEC and its variants on deferrable jobs of several workloads.

A network may begin with demonstrations of what a list plan does. Some of its decisions are replaced by random ones, so
that there are demonstrations of what to do behind mistakes: Laskey, Lee, Fox, Dragan and Goldberg, "DART: noise
injection for robust imitation learning", CoRL 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, ClassVar, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from desim import plugins, simulate
from desim.agents.deferrable.list_plan import planned_starts
from desim.agents.deferrable.orders import first_fitting
from desim.agents.deferrable.osdec import OsdecConfig
from desim.agents.deferrable.registry import create
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.deferrable.score_policy import KNOWN, TARGETS, TASKS, ScorePolicy, seen_of
from desim.agents.learning.custom import check_known, custom_reward
from desim.agents.learning.experience import Arrays
from desim.agents.learning.imitation import EXPERT, ExpertLabelledEnv, advice, clone, imitate
from desim.agents.learning.learner import Algorithm, LearningConfig
from desim.agents.learning.policy import Distribution, Gaussian
from desim.agents.learning.settings import TrainingSettings
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation
from desim.problems.deferrable.env import REWARDS, DeferrableEnv
from desim.problems.deferrable.observation import LATER

__all__ = [
    "DeferrableEpisodes",
    "Demonstrator",
    "OsdecTraining",
    "ScoreTraining",
    "agreement",
    "demonstrations",
    "distance",
    "make_env",
    "measure",
]

Episodes = Callable[[Generator], DeferrableCluster]

"""Draws the cluster of an episode."""


_STARTED, _EACH, _NEVER = 0.25, 0.05, 0.75

NOISE = (0.0, 0.05, 0.1, 0.3)


class Demonstrator:
    """A list plan that notes what is seen and what it would start, and now and then starts something else."""

    name = "demonstrator"

    def __init__(self, config: ScoreConfig, rng: Generator) -> None:
        self.encoder = config.encoder()
        self.rng = rng
        self.noise = float(rng.choice(np.array(NOISE)))
        self.noted: list[Arrays] = []
        self.last: Arrays | None = None

    def reset(self, simulation_info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a run."""
        self.last = None

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return positions of the jobs to be started."""
        number = len(observation.current)
        arrays = self.encoder.encode(observation)
        if self.last is not None:
            self.last[TARGETS], self.last[KNOWN] = seen_of(arrays["history"][-1], self.encoder.num_resources)
            self.last = None
        if not number:
            return []
        waits = planned_starts(observation, "best")
        started = np.flatnonzero(waits[:number] == 0).tolist()
        scores = self._wanted(waits, number)
        nothing = np.zeros(len(TASKS), np.float32)
        self.last = arrays | {EXPERT: scores, TARGETS: nothing, KNOWN: nothing}
        self.noted.append(self.last)
        if self.rng.random() >= self.noise:
            return started
        order = self.rng.permutation(number)[self.rng.random(number) < self.rng.random()]
        room = (observation.limit - observation.used)[None, :]
        return first_fitting(observation.current, order, room, skip=True)

    def _wanted(self, waits: NDArray[np.int64], number: int) -> NDArray[np.float32]:
        """Return the scores that lead to a plan: the sooner a job is to start the higher, above 0 if now."""
        wanted = np.where(waits == LATER, -_NEVER, -np.minimum(_STARTED + _EACH * (waits - 1), _NEVER))
        wanted[waits == 0] = _STARTED
        if self.encoder.rule != "reserve":  # no job keeps its place, so it is all the same how long it waits
            wanted = np.sign(wanted) * _STARTED
        scores = np.zeros(self.encoder.num_scores, np.float32)
        room = self.encoder.max_jobs
        current, future = wanted[:number][:room], wanted[number:]
        scores[: len(current)] = current
        behind = scores[room:]
        behind[: len(future)] = future[: len(behind)]
        return scores


def demonstrations(
    config: ScoreConfig,
    episodes: Episodes,
    seeds: Sequence[np.random.SeedSequence],
    *,
    num_workers: int = 0,
) -> tuple[Arrays, NDArray[np.float32]]:
    """Return what is seen, and what a list plan does, in some episodes.

    Parameters
    ----------
    config : ScoreConfig
        Who is to imitate it: says what is seen.
    episodes : callable
        Draws the cluster of each.
    seeds : sequence of numpy.random.SeedSequence
        One for each episode, and for the noise in it.
    num_workers : int
        Processes that simulate, which changes nothing else; 0 simulates in this one.

    Returns
    -------
    tuple of dict of str to array of shape (S, ...) and array of shape (S, max_jobs)
        Encoded observations with a job to be started, and scores: above 0 for the jobs that were started.
    """
    parallel = Parallel(n_jobs=max(num_workers, 1))
    parts: list[list[Arrays]] = parallel(delayed(_demonstrated)(config, episodes, seed) for seed in seeds)
    noted = [one for part in parts for one in part]
    empty = {EXPERT: np.zeros((0, config.encoder().num_scores), np.float32)}
    arrays = {name: np.stack([one[name] for one in noted]) for name in noted[0]} if noted else empty
    return arrays, arrays.pop(EXPERT)


def _demonstrated(config: ScoreConfig, episodes: Episodes, seed: np.random.SeedSequence) -> list[Arrays]:
    """Return what was noted in an episode."""
    rng = np.random.default_rng(seed)
    demonstrator = Demonstrator(config, rng)
    simulate(episodes(rng), demonstrator)
    return demonstrator.noted


def agreement(likely: Tensor, wanted: Tensor) -> Tensor:
    """Tell in which decisions the same jobs have a score above 0, shape (B,)."""
    return ((likely > 0) == (wanted > 0)).all(1)


def distance(distribution: Distribution, wanted: Tensor) -> Tensor:
    """Return how far scores are from what the expert did, shape (B,).

    The mean scores are drawn towards a quarter above and below 0, where noise still turns some of them around: a policy
    that is sure of everything has nothing to learn from.

    Parameters
    ----------
    distribution : Distribution
        Of the scores of B decisions.
    wanted : Tensor
        What the expert did.
    """
    if not isinstance(distribution, Gaussian):
        return -distribution.log_prob(wanted)
    errors = (distribution.mean - wanted).square()
    return (errors * distribution.mask).sum(1)


DEMONSTRATIONS = 2

"""What the seeds of the demonstrations begin with, which keeps them apart from those of training and validation."""

LIST_PLAN = "list-plan"
"""The expert whose episodes are demonstrations."""

ADVISED = 3
"""What the seeds of episodes with an expert's advice begin with."""

MEASURES = ("total_reward", "revenue", "time_delay", "violation_penalty")

REAL_TIME = {"no": (False,), "yes": (True,), "half": (False, True)}


@cache
def _workload() -> Callable[..., Any]:
    """Return what draws jobs and capacity; to look for it takes longer than to draw them."""
    found: Callable[..., Any] = plugins.episode_workload("deferrable")
    return found


@dataclass(frozen=True)
class DeferrableEpisodes:
    """Where episodes come from: workload and setting of a cluster are drawn at random.

    Parameters
    ----------
    workloads : tuple of str
        One of which is drawn for an episode: default, fluctuating, core-1 to -3, duration-1 to -3.
    real_time : {"no", "yes", "half"}
        Jobs are shown at their earliest start only and must be started then; or so in half of the episodes.
    delay_weight : float
        What a slot of a job's delay costs, in core-slots.
    violation_weight : float
        What each core above the capacity costs in a slot.

    Raises
    ------
    InvalidConfiguration
        If there is nothing to draw from.
    """

    workloads: tuple[str, ...] = ("default",)
    real_time: Literal["no", "yes", "half"] = "no"
    delay_weight: float = 2.0
    violation_weight: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if not self.workloads:
            raise InvalidConfiguration("workloads is empty: there is nothing to draw from")

    def __call__(self, rng: Generator) -> DeferrableCluster:
        """Return the cluster of an episode, drawn by a generator."""
        make, real_time = _workload(), REAL_TIME[self.real_time]
        workload = self.workloads[int(rng.integers(len(self.workloads)))]
        in_real_time = real_time[int(rng.integers(len(real_time)))]
        scenario = make(rng, settings=workload)
        return DeferrableCluster(
            scenario.jobs,
            scenario.capacity,
            num_slots=scenario.num_slots,
            delay_weight=self.delay_weight,
            violation_weight=self.violation_weight,
            real_time=in_real_time,
        )


@dataclass(frozen=True)
class ScoreTraining(TrainingSettings[ScorePolicy]):
    """Train OSDEC or a variant for deferrable jobs; the weights and their card are written to the directory.

    Examples::

        desim train deferrable --quick --out quick
        desim train deferrable --auxiliary none --seed 1 --out attention
        desim train deferrable --warm-start 300 --workloads core-1 core-2 core-3 --out cores
        desim train deferrable --algorithm reinforce --learning-rate 0.001 --whole-episodes --num-steps 1000 --out plain

    Ctrl-C ends a training early; the same command goes on from where it was, to the same numbers.

    Parameters
    ----------
    agent : ScoreConfig
        Network, and how its scores are read.
    learning : LearningConfig
        How it learns. Learning rate, mini-batches and discount are those of the paper's table 3, for PPO.
    training : TrainingConfig
        Length, seed and environments: batches of 2,048 decisions of 16 environments, as in the paper.
    episodes : DeferrableEpisodes
        Workloads and objective.
    reward : str
        "paper": that of the objective; "utilization"; or ``module:name``, one of your own. But for the paper's the
        weights with the highest return are kept.
    auxiliary_rate : float
        How many times faster than the policy the auxiliary module learns; 100 in the paper.
    warm_start : int
        Episodes from which the network first learns to do what a list plan does; with another expert, rounds of
        episodes of its own. With ``total_steps`` 0 it learns no more.
    expert : str
        "list-plan", or any agent for deferrable jobs, such as "search:deferrable", which sees all that there is and is
        imitated where the network acts, wherever scores can start the same jobs.
    """

    trained: ClassVar[str] = "deferrable"
    rules: ClassVar[tuple[str, ...]] = ("earliest-deadline", "list-plan")

    agent: ScoreConfig = field(default_factory=ScoreConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(learning_rate=1e-4, minibatch_size=64, entropy_coef=0.0)
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(total_steps=500_000, num_envs=16, num_steps=128, validation_episodes=50)
    )
    episodes: DeferrableEpisodes = field(default_factory=DeferrableEpisodes)
    reward: str = "paper"
    auxiliary_rate: float = 100.0
    expert: str = LIST_PLAN

    def __post_init__(self) -> None:
        """Refuse what does not go together, and experts that are not known."""
        super().__post_init__()
        check_known("reward", self.reward, REWARDS)
        if self.expert != LIST_PLAN:
            create(self.expert)

    @classmethod
    def quick(cls) -> ScoreTraining:
        """Return a small training of a few minutes."""
        return cls(training=replace(cls().training, total_steps=60_000, validate_every=5))

    @property
    def default_name(self) -> str:
        """The network and what it sees."""
        return f"{self.agent.network}-{self.agent.auxiliary}"

    def learner(self, policy: ScorePolicy, rng: Generator) -> Algorithm:
        """Return what learns; the auxiliary module at its own rate."""
        if isinstance(policy, ScorePolicy):
            policy.auxiliary_rate = self.auxiliary_rate
        return super().learner(policy, rng)

    def task(self) -> Task:
        """Return what is to be learned."""
        make = partial(make_env, self)
        return Task(make, make, measure, objective="total_reward" if self.reward == "paper" else "return")

    def warm_up(self, training: Training) -> float | None:
        """Let the network imitate the expert; return in which share of the decisions it agreed at last."""
        if not self.warm_start:
            return None
        if self.expert != LIST_PLAN:
            return self._imitate(training)
        seeds = np.random.SeedSequence([DEMONSTRATIONS, self.training.seed]).spawn(self.warm_start)
        workers = self.training.num_workers
        shown, done = demonstrations(self.agent, self.episodes, seeds, num_workers=workers)
        return clone(training.student, shown, done, distance, agrees=agreement)[-1]

    def _imitate(self, training: Training) -> float:
        """Let the network act, and learn what the expert would do there, from all rounds."""
        learner, rounds = training.student, self.warm_start
        with training.collector_of(partial(_advised, self), ADVISED) as collector:
            collect = partial(collector.collect, learner.policy, self.training.num_steps)
            steps: dict[str, Any] = {"epochs": 6, "minibatch_size": 128}  # small ones, as those for demonstrations
            further: dict[str, Any] = {"distance": distance, "agrees": agreement}
            return imitate(learner, collect, advice, rounds=rounds, memory=rounds, **steps, **further)[-1]


@dataclass(frozen=True)
class OsdecTraining(ScoreTraining):
    """Train OSDEC as printed, or a variant of the paper's table 1; weights and card are written to the directory.

    Examples::

        desim train deferrable-osdec --quick --out quick
        desim train deferrable-osdec --auxiliary high --seed 1 --out auxh
        desim train deferrable-osdec --network mlp --auxiliary none --out ppo
        desim train deferrable-osdec --algorithm reinforce --whole-episodes --num-steps 1000 --out reinforce

    Ctrl-C ends a training early; the same command goes on from where it was, to the same numbers.

    Parameters
    ----------
    agent : OsdecConfig
        Network, and what it sees of the auxiliary module.
    learning : LearningConfig
        How it learns, as table 3 has it.
    training : TrainingConfig
        Length, seed and environments: batches of 2,048 decisions of 16 environments, as in the paper.
    episodes : DeferrableEpisodes
        Workloads and objective.
    reward : str
        As for :class:`ScoreTraining`.
    auxiliary_rate : float
        How many times faster than the policy the auxiliary module learns; 100 in table 3.
    warm_start : int
        Always 0: the paper's agents imitate nobody.
    expert : str
        Plays no part.

    Raises
    ------
    InvalidConfiguration
        If there is a warm start.
    """

    trained: ClassVar[str] = "deferrable-osdec"
    rules: ClassVar[tuple[str, ...]] = ("fifo", "tetris")

    agent: OsdecConfig = field(default_factory=OsdecConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(learning_rate=1e-4, minibatch_size=64, entropy_coef=0.0, target_kl=0.0)
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            total_steps=204_800, num_envs=16, num_steps=128, validation_episodes=20, validate_every=5
        )
    )
    episodes: DeferrableEpisodes = field(default_factory=lambda: DeferrableEpisodes(("osdec-table-1",)))

    def __post_init__(self) -> None:
        """Refuse what is not the paper's."""
        super().__post_init__()
        if self.warm_start:
            raise InvalidConfiguration(
                f"warm_start is {self.warm_start!r}, want 0: the paper's agents imitate nobody; try "
                "`desim train deferrable`"
            )

    @classmethod
    def quick(cls) -> OsdecTraining:
        """Return a small training of a few minutes."""
        return cls(training=replace(cls().training, total_steps=20_480))


def _advised(settings: ScoreTraining) -> ExpertLabelledEnv:
    """Return an environment for training that tells what the expert would do."""
    return ExpertLabelledEnv(make_env(settings), create(settings.expert))


def make_env(settings: ScoreTraining) -> DeferrableEnv:
    """Return an environment for training or for validation, which differ by the seeds of their episodes.

    It asks in every slot, so that each follows the one before.

    Parameters
    ----------
    settings : ScoreTraining
        Observation and workloads.
    """
    return DeferrableEnv(
        settings.episodes, observation=settings.agent.encoder(), reward=custom_reward(settings.reward, REWARDS)
    )


def measure(gym_env: Any) -> dict[str, float]:
    """Return metrics of an episode that has ended.

    Parameters
    ----------
    gym_env : gymnasium.Env
        An environment of deferrable jobs.
    """
    metrics = gym_env.unwrapped.result().metrics()
    return {name: metrics[name] for name in MEASURES}
