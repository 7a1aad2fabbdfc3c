"""Training of OSDEC and its variants on deferrable jobs of several workloads.

A training may begin with imitation of a list plan's demonstrations. Some decisions in them are replaced by random ones,
so that the demonstrations also cover states after mistakes: Laskey, Lee, Fox, Dragan and Goldberg, "DART: noise
injection for robust imitation learning", CoRL 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from desim.agents.learning.imitation import EXPERT, ExpertLabelledEnv, advice, clone, imitate
from desim.agents.learning.learner import Algorithm, LearningConfig
from desim.agents.learning.policy import Distribution, Gaussian
from desim.agents.learning.settings import TrainingSettings
from desim.agents.learning.training import Task, Training, TrainingConfig
from desim.envs.base import Arrays
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

"""Function that samples the cluster of an episode."""


_STARTED, _EACH, _NEVER = 0.25, 0.05, 0.75

NOISE = (0.0, 0.05, 0.1, 0.3)


class Demonstrator:
    """List plan that records observations and its decisions, and sometimes takes a random decision instead."""

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
        """Return the positions of the jobs to start."""
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
        """Return scores that decode to a plan: higher for earlier starts, above 0 for jobs that start now."""
        wanted = np.where(waits == LATER, -_NEVER, -np.minimum(_STARTED + _EACH * (waits - 1), _NEVER))
        wanted[waits == 0] = _STARTED
        if self.encoder.rule != "reserve":  # without reservations the length of the wait does not matter
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
    """Return demonstrations of a list plan in some episodes.

    Parameters
    ----------
    config : ScoreConfig
        Configuration of the agent that will imitate the plan; it determines the encoder.
    episodes : callable
        Function that samples the cluster of an episode.
    seeds : sequence of numpy.random.SeedSequence
        Seed of each episode and of the noise in it.
    num_workers : int
        Number of processes that simulate; with 0 this process does. The result does not depend on it.

    Returns
    -------
    tuple of dict of str to array of shape (S, ...) and array of shape (S, max_jobs)
        Encoded observations with at least one current job, and scores, which are above 0 for the jobs that the plan
        starts.
    """
    parallel = Parallel(n_jobs=max(num_workers, 1))
    parts: list[list[Arrays]] = parallel(delayed(_demonstrated)(config, episodes, seed) for seed in seeds)
    noted = [one for part in parts for one in part]
    empty = {EXPERT: np.zeros((0, config.encoder().num_scores), np.float32)}
    arrays = {name: np.stack([one[name] for one in noted]) for name in noted[0]} if noted else empty
    return arrays, arrays.pop(EXPERT)


def _demonstrated(config: ScoreConfig, episodes: Episodes, seed: np.random.SeedSequence) -> list[Arrays]:
    """Return the demonstrations of one episode."""
    rng = np.random.default_rng(seed)
    demonstrator = Demonstrator(config, rng)
    simulate(episodes(rng), demonstrator)
    return demonstrator.noted


def agreement(likely: Tensor, wanted: Tensor) -> Tensor:
    """Return for each decision whether the same jobs have a score above 0, shape (B,)."""
    return ((likely > 0) == (wanted > 0)).all(1)


def distance(distribution: Distribution, wanted: Tensor) -> Tensor:
    """Return the loss between scores and the expert's, shape (B,).

    The expert's scores are only a quarter above or below 0, so that noise still changes the sign of some: a policy that
    is certain of everything no longer explores.

    Parameters
    ----------
    distribution : Distribution
        Distribution of the scores of B decisions.
    wanted : Tensor
        Scores of the expert.
    """
    if not isinstance(distribution, Gaussian):
        return -distribution.log_prob(wanted)
    errors = (distribution.mean - wanted).square()
    return (errors * distribution.mask).sum(1)


DEMONSTRATIONS = 2

"""First part of the seeds of demonstrations, which keeps them separate from those of training and validation."""

LIST_PLAN = "list-plan"
"""Name of the expert that is imitated by demonstrations."""

ADVISED = 3
"""First part of the seeds of episodes that are labelled by an expert."""

MEASURES = ("total_reward", "revenue", "time_delay", "violation_penalty")

REAL_TIME = {"no": (False,), "yes": (True,), "half": (False, True)}


@cache
def _workload() -> Callable[..., Any]:
    """Return the workload generator; it is cached because the lookup takes longer than generating a workload."""
    found: Callable[..., Any] = plugins.episode_workload("deferrable")
    return found


@dataclass(frozen=True)
class DeferrableEpisodes:
    """Workloads and objective of the episodes.

    Parameters
    ----------
    workloads : tuple of str
        Names of workload settings, one of which is sampled per episode: default, fluctuating, core-1 to core-3,
        duration-1 to duration-3.
    real_time : {"no", "yes", "half"}
        Whether jobs are known only from their earliest start on and must be started then: never, in all episodes, or in
        half of them.
    delay_weight : float
        Cost of a slot of delay of a job, in core-slots.
    violation_weight : float
        Cost of each core above the capacity per slot, in core-slots.

    Raises
    ------
    InvalidConfiguration
        If ``workloads`` is empty.
    """

    workloads: tuple[str, ...] = ("default",)
    real_time: Literal["no", "yes", "half"] = "no"
    delay_weight: float = 2.0
    violation_weight: float = 10.0

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if there is no workload."""
        if not self.workloads:
            raise InvalidConfiguration("workloads: got none, expected one or more names; try default")

    def __call__(self, rng: Generator) -> DeferrableCluster:
        """Return a random cluster for an episode."""
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
    """Train OSDEC or a variant for deferrable jobs, and write the weights and their model card to a directory.

    Examples::

        desim train deferrable --quick --out quick
        desim train deferrable --auxiliary none --seed 1 --out attention
        desim train deferrable --warm-start 300 --workloads core-1 core-2 core-3 --out cores
        desim train deferrable --algorithm reinforce --learning-rate 0.001 --whole-episodes --num-steps 1000 --out plain

    Ctrl-C interrupts a training; the same command resumes it, with the same results.

    Parameters
    ----------
    agent : ScoreConfig
        Network, and how its scores are decoded.
    learning : LearningConfig
        Learning algorithm and its settings. Learning rate, minibatch size and discount are those of PPO in the paper's
        table 3.
    training : TrainingConfig
        Training length, seed and environments: batches of 2,048 decisions in 16 environments, as in the paper.
    episodes : DeferrableEpisodes
        Workloads and objective of the episodes.
    reward : str
        Reward: "paper" (the objective), "utilization", or module:name of a custom reward. With "paper" the weights with
        the best objective are kept, otherwise those with the highest return.
    auxiliary_rate : float
        Learning rate of the auxiliary module as a multiple of the policy's; 100 in the paper.
    warm_start : int
        Length of the imitation before learning from rewards: number of episodes demonstrated by a list plan, or, with
        another expert, rounds of the network's own episodes. Set total_steps to 0 for imitation alone.
    expert : str
        Agent to imitate: "list-plan", or any other agent for deferrable jobs, such as "search:deferrable". Others label
        the states that the network visits; decisions that scores cannot express are skipped.
    """

    trained: ClassVar[str] = "deferrable"
    rules: ClassVar[tuple[str, ...]] = ("earliest-deadline", "list-plan")
    quick_values: ClassVar[Mapping[str, Any]] = {"total_steps": 60_000, "validate_every": 5}

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
        """Raise InvalidConfiguration if values do not fit together or the expert is unknown."""
        super().__post_init__()
        check_known("reward", self.reward, REWARDS)
        if self.expert != LIST_PLAN:
            create(self.expert)

    @property
    def default_name(self) -> str:
        """Default base name of the weight files: the network and its auxiliary vectors."""
        return f"{self.agent.network}-{self.agent.auxiliary}"

    def learner(self, policy: ScorePolicy, rng: Generator) -> Algorithm:
        """Return the learning algorithm, with a separate rate for the auxiliary module."""
        if isinstance(policy, ScorePolicy):
            policy.auxiliary_rate = self.auxiliary_rate
        return super().learner(policy, rng)

    def task(self) -> Task:
        """Return the learning task."""
        make = partial(make_env, self)
        return Task(make, make, measure, objective="total_reward" if self.reward == "paper" else "return")

    def warm_up(self, training: Training) -> float | None:
        """Train the network to imitate the expert; return the final share of decisions in which they agree."""
        if not self.warm_start:
            return None
        if self.expert != LIST_PLAN:
            return self._imitate(training)
        seeds = np.random.SeedSequence([DEMONSTRATIONS, self.training.seed]).spawn(self.warm_start)
        workers = self.training.num_workers
        shown, done = demonstrations(self.agent, self.episodes, seeds, num_workers=workers)
        return clone(training.student, shown, done, distance, agrees=agreement)[-1]

    def _imitate(self, training: Training) -> float:
        """Imitate the expert in states that the network visits; each round trains on the samples of all rounds."""
        learner, rounds = training.student, self.warm_start
        with training.collector_of(partial(_advised, self), ADVISED) as collector:
            collect = partial(collector.collect, learner.policy, self.training.num_steps)
            steps: dict[str, Any] = {"epochs": 6, "minibatch_size": 128}  # same as for demonstrations
            further: dict[str, Any] = {"distance": distance, "agrees": agreement}
            return imitate(learner, collect, advice, rounds=rounds, memory=rounds, **steps, **further)[-1]


@dataclass(frozen=True)
class OsdecTraining(ScoreTraining):
    """Train OSDEC as in the paper, or a variant of its table 1, and write weights and model card to a directory.

    Examples::

        desim train deferrable-osdec --quick --out quick
        desim train deferrable-osdec --auxiliary high --seed 1 --out auxh
        desim train deferrable-osdec --network mlp --auxiliary none --out ppo
        desim train deferrable-osdec --algorithm reinforce --whole-episodes --num-steps 1000 --out reinforce

    Ctrl-C interrupts a training; the same command resumes it, with the same results.

    Parameters
    ----------
    agent : OsdecConfig
        Network of table 1, with or without the auxiliary module.
    learning : LearningConfig
        Learning algorithm and its settings, as in table 3.
    training : TrainingConfig
        Training length, seed and environments: batches of 2,048 decisions in 16 environments, as in the paper.
    episodes : DeferrableEpisodes
        Workloads and objective of the episodes.
    reward : str
        Reward: "paper" (the objective), "utilization", or module:name of a custom reward. With "paper" the weights with
        the best objective are kept, otherwise those with the highest return.
    auxiliary_rate : float
        Learning rate of the auxiliary module as a multiple of the policy's; 100 in table 3.
    warm_start : int
        Length of the imitation before learning from rewards; always 0, since the paper uses no imitation.
    expert : str
        Agent to imitate; not used.

    Raises
    ------
    InvalidConfiguration
        If ``warm_start`` is not 0.
    """

    trained: ClassVar[str] = "deferrable-osdec"
    rules: ClassVar[tuple[str, ...]] = ("fifo", "tetris")
    quick_values: ClassVar[Mapping[str, Any]] = {"total_steps": 20_480}

    agent: OsdecConfig = field(default_factory=OsdecConfig)
    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            learning_rate=1e-4, last_rate=1.0, minibatch_size=64, entropy_coef=0.0, target_kl=0.0
        )
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            total_steps=204_800, num_envs=16, num_steps=128, validation_episodes=20, validate_every=5
        )
    )
    episodes: DeferrableEpisodes = field(default_factory=lambda: DeferrableEpisodes(("osdec-table-1",)))

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if values do not fit together or there is a warm start."""
        super().__post_init__()
        if self.warm_start:
            raise InvalidConfiguration(
                f"warm_start: got {self.warm_start!r}, expected 0, since the paper uses no imitation; try "
                "`desim train deferrable`"
            )


def _advised(settings: ScoreTraining) -> ExpertLabelledEnv:
    """Return a training environment that is labelled by the expert."""
    return ExpertLabelledEnv(make_env(settings), create(settings.expert))


def make_env(settings: ScoreTraining) -> DeferrableEnv:
    """Return an environment for training or validation, which differ only in the seeds of their episodes.

    There is a decision in every slot, so that consecutive steps are consecutive slots.

    Parameters
    ----------
    settings : ScoreTraining
        Settings with the encoder, the workloads and the reward.
    """
    return DeferrableEnv(
        settings.episodes, observation=settings.agent.encoder(), reward=custom_reward(settings.reward, REWARDS)
    )


def measure(gym_env: Any) -> dict[str, float]:
    """Return metrics of a finished episode.

    Parameters
    ----------
    gym_env : gymnasium.Env
        Environment of deferrable jobs at the end of an episode.
    """
    metrics = gym_env.unwrapped.result().metrics()
    return {name: metrics[name] for name in MEASURES}
