"""Training of the split-window agent, for ``desim train batch`` and for the experiments.

Workloads for training and for validation are generated from seeds that are kept apart; a real trace, or the one that
a paper used, is left for the evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agents.batch.split_window import SplitWindowConfig
from agents.learning.checkpoint import save_weights
from agents.learning.imitation import imitate
from agents.learning.learner import Discounting
from agents.learning.ppo import PPO, PPOConfig
from agents.learning.training import Task, Training, TrainingConfig, TrainingResult
from desim import plugins
from desim.envs import ACTION_MASK
from desim.envs.batch import CLUSTER_FEATURES, JOB_FEATURES, SCALE, BatchEnv, TraceEpisodes
from desim.exceptions import InvalidConfiguration

__all__ = [
    "WINDOWS",
    "EpisodeOptions",
    "SplitWindowTraining",
    "make_env",
    "measure",
    "trace_episodes",
    "train",
    "with_seed",
    "write",
]

WINDOWS = tuple((size - tail, tail) for size in (8, 10, 16, 20, 32, 64) for tail in range(1, size + 1))
"""The windows of the DBF paper's figure 5 with at least one slot at the tail."""

DEFAULT_PPO = PPOConfig(
    learning_rate=3e-3,
    final_learning_rate=3e-4,
    epochs=6,
    minibatch_size=2048,
    discounting=Discounting(0.98, 0.9, 3600.0),
)
"""Settings that served well: what comes an hour later counts 2 % less, whatever the number of decisions in between."""

VALIDATION_SEED = 1_000_000
MEASURES = (
    "waiting_time_mean",
    "waiting_time_p99",
    "waiting_time_max",
    "queue_length_mean",
    "utilization",
    "queued_load_mean",
)


@dataclass(frozen=True)
class EpisodeOptions:
    """Where episodes come from.

    Parameters
    ----------
    num_cores : int
        Cores of the cluster.
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
    arrivals : {"open", "closed"}
        Whether jobs go on arriving until num_jobs have been started.
    """

    num_cores: int = 256
    load: float = 1.06
    overestimate: float = 1.0
    num_traces: int = 64
    trace_jobs: int = 10_000
    num_jobs: int = 1_000
    arrivals: Literal["open", "closed"] = "open"


@dataclass(frozen=True)
class SplitWindowTraining:
    """All that determines the training of a split-window agent.

    Parameters
    ----------
    agent : SplitWindowConfig
        Window and network.
    windows : tuple of pairs of ints
        Several windows, each the window of an episode at random, in place of the agent's; for the scorer.
    episodes : EpisodeOptions
        Workloads.
    reward : {"waiting", "paper", "scaled"}
        What is earned.
    warm_start : int
        Rollouts in which the agent first learns to do what a rule does in its window; 0 does without.
    expert : {"shortest", "reserving"}
        The rule, of :class:`agents.batch.window_rules.WindowRule`; the latter for the scorer.
    ppo : PPOConfig
        Settings of the algorithm.
    training : TrainingConfig
        Length, seed and environments.
    """

    agent: SplitWindowConfig = field(default_factory=SplitWindowConfig)
    windows: tuple[tuple[int, int], ...] = ()
    episodes: EpisodeOptions = field(default_factory=EpisodeOptions)
    reward: str = "waiting"
    warm_start: int = 0
    expert: Literal["shortest", "reserving"] = "reserving"
    ppo: PPOConfig = field(default_factory=lambda: DEFAULT_PPO)
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(total_steps=3_000_000))

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a card."""
        return asdict(self) | {"agent": self.agent.plain()}


@lru_cache(maxsize=4)
def trace_episodes(options: EpisodeOptions, *, validation: bool) -> TraceEpisodes:
    """Return the episodes for training or validation, made once in each process.

    Parameters
    ----------
    options : EpisodeOptions
        What they are like.
    validation : bool
        Whether they are for validation, from other seeds.

    Returns
    -------
    TraceEpisodes
        Of generated traces.
    """
    provider = plugins.workload_provider("batch", "lublin")
    count = max(options.num_traces // 4, 1) if validation else options.num_traces
    first = VALIDATION_SEED if validation else 1
    traces = [
        list(
            provider.load(
                "lublin",
                num_jobs=options.trace_jobs,
                num_cores=options.num_cores,
                seed=first + number,
                load=options.load,
                overestimate=options.overestimate,
            ).jobs
        )
        for number in range(count)
    ]
    return TraceEpisodes(traces, options.num_cores, num_jobs=options.num_jobs, arrivals=options.arrivals)


def make_env(settings: SplitWindowTraining, *, validation: bool = False) -> BatchEnv:
    """Return an environment for training or for validation.

    Parameters
    ----------
    settings : SplitWindowTraining
        Window, observation, reward and workloads.
    validation : bool
        Whether it is for validation.

    Returns
    -------
    BatchEnv
        Which does not ask where there is no choice.
    """
    agent, episodes = settings.agent, settings.episodes
    return BatchEnv(
        trace_episodes(episodes, validation=validation),
        episodes.num_cores,
        window=settings.windows or (agent.head, agent.tail),
        observation=agent.observation,
        reward=settings.reward,
        num_jobs=episodes.num_jobs,
        skip_forced=True,
        reserve_after=agent.reserve_after_or_never,
    )


def measure(gym_env: Any) -> dict[str, float]:
    """Return measures of an episode that has ended; jobs still queued count with their waiting time so far.

    Parameters
    ----------
    gym_env : gymnasium.Env
        A batch environment.

    Returns
    -------
    dict of str to float
        Metrics of :data:`desim.metrics.BATCH_METRICS`.
    """
    metrics = gym_env.unwrapped.result().metrics(unfinished="include")
    return {name: metrics[name] for name in MEASURES}


def shortest(observations: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the slots of the shortest jobs that fit, for imitation.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Flat ones or features.

    Returns
    -------
    array of int, shape (B,)
        To wait where no job fits.
    """
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    column = JOB_FEATURES.index("requested_time") if "cluster" in observations else 1
    return _least(observations["jobs"][:, :, column], mask)


def reserving(observations: dict[str, NDArray[Any]], horizon: float = 3600.0) -> NDArray[Any]:
    """Return what the rule "reserving" does, for imitation.

    Parameters
    ----------
    observations : dict of str to array, shape (B, ...)
        Features.
    horizon : float
        In seconds.

    Returns
    -------
    array of int, shape (B,)
        To wait where no job fits, or all would delay the reserved one.

    Raises
    ------
    InvalidConfiguration
        If the observations are flat.
    """
    if "cluster" not in observations:
        raise InvalidConfiguration("the rule 'reserving' needs features: use 'shortest' with the flat observation")
    jobs, cluster = observations["jobs"], observations["cluster"]
    mask = observations[ACTION_MASK][:, :-1].astype(bool)
    soon = cluster[:, CLUSTER_FEATURES.index("reserved_job")] > 0
    soon &= cluster[:, CLUSTER_FEATURES.index("reserved_time")] < SCALE * np.log1p(horizon)
    mask &= ~(soon[:, None] & (jobs[:, :, JOB_FEATURES.index("delays_reservation")] > 0))
    return _least(jobs[:, :, JOB_FEATURES.index("requested_time")], mask)


def _least(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    slots: NDArray[Any] = np.where(mask.any(1), np.where(mask, values, np.inf).argmin(1), mask.shape[1])
    return slots


EXPERTS = {"shortest": shortest, "reserving": reserving}


def train(
    settings: SplitWindowTraining,
    directory: Path | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> TrainingResult:
    """Train a split-window agent.

    Parameters
    ----------
    settings : SplitWindowTraining
        All that determines the training.
    directory : Path, optional
        Where checkpoints and TensorBoard's log go; a training that was interrupted there goes on.
    report : callable, optional
        Called with each new entry of the learning curve.

    Returns
    -------
    TrainingResult
        The best weights on the validation episodes, and the learning curve.
    """
    root = np.random.SeedSequence(settings.training.seed)
    for_weights, for_learner = (np.random.default_rng(seed) for seed in root.spawn(2))
    learner = PPO(settings.agent.policy(for_weights), settings.ppo, for_learner)
    task = Task(
        partial(make_env, settings),
        partial(make_env, settings, validation=True),
        measure,
        objective="waiting_time_mean",
        maximize=False,
    )
    others = {name: value for name, value in settings.plain().items() if name != "training"}
    training = Training(task, learner, settings.training, directory, others)
    if settings.warm_start and not training.history:
        agreements = imitate(learner, training.rollout, EXPERTS[settings.expert], num_rollouts=settings.warm_start)
        if report is not None:
            report({"steps": 0, "seconds": 0.0, "agreement": agreements[-1]})
    return training.run(report)


def write(stem: Path, settings: SplitWindowTraining, result: TrainingResult, command: str = "") -> None:
    """Write the weights of a training with their card.

    Parameters
    ----------
    stem : Path
        The files, without ``.safetensors`` and ``.json``.
    settings : SplitWindowTraining
        What was trained.
    result : TrainingResult
        What has come of it.
    command : str
        The command line that trains the agent again.

    Raises
    ------
    RecordError
        If they cannot be written.
    InvalidConfiguration
        If the training was interrupted.
    """
    if result.status == "interrupted":
        raise InvalidConfiguration("the training was interrupted: its weights are not final")
    card = {
        "agent": "split-window",
        "config": settings.agent.plain(),
        "command": command,
        "seed": settings.training.seed,
        "training": settings.plain(),
        "status": result.status,
        "validation": result.best,
        "history": result.history,
    }
    save_weights(stem, result.weights, card)


def with_seed(settings: SplitWindowTraining, seed: int) -> SplitWindowTraining:
    """Return the same training from another seed.

    Parameters
    ----------
    settings : SplitWindowTraining
        What is trained.
    seed : int
        Of everything random in it.
    """
    return replace(settings, training=replace(settings.training, seed=seed))
